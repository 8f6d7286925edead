export default function Sessions() {
  return <main>Sessions</main>;
}
