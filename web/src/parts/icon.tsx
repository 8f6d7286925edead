// Icons, drawn here: strokes in a box of 24, in the colour of the text. Decoration only: the control has the accessible name.

const PATHS = {
  sessions: "M4 6h16M4 12h10M4 18h13",
  waiting: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M12 7.5v5l3 2",
  terminal: "M5 6l6 6-6 6M12.5 18H20",
  notifications: "M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 21h4",
  usage: "M4 20V4M4 20h16M8.5 16v-4M13 16V8M17.5 16v-6",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5",
  help: "M9.3 9a2.8 2.8 0 1 1 4 2.6c-.9.5-1.3 1-1.3 2.1M12 17.3v.2M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18",
  plus: "M12 5v14M5 12h14",
  search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M15.3 15.3L20 20",
  close: "M6 6l12 12M18 6L6 18",
  check: "M5 12.5l4.5 4.5L19 7.5",
  back: "M14.5 5.5L8 12l6.5 6.5",
  down: "M6 9.5l6 6 6-6",
  right: "M9.5 6l6 6-6 6",
  up: "M12 19V5.5M6 11l6-6 6 6",
  more: "M5.5 11.4a.6.6 0 1 0 0 1.2.6.6 0 0 0 0-1.2M12 11.4a.6.6 0 1 0 0 1.2.6.6 0 0 0 0-1.2M18.5 11.4a.6.6 0 1 0 0 1.2.6.6 0 0 0 0-1.2",
  stop: "M7 7h10v10H7z",
  send: "M12 19V5M5.5 11.5L12 5l6.5 6.5",
  attach: "M8 12.5l6-6a3 3 0 0 1 4.3 4.2l-8 8a5 5 0 0 1-7-7l7.5-7.6",
  camera: "M4 8h3.5L9 5.5h6L16.500 8H20v11H4zM12 10.500a3 3 0 1 0 0 6 3 3 0 0 0 0-6",
  folder: "M3.500 6.500h6l2 2.500h9v9.500h-17z",
  fork: "M7 4v7a4 4 0 0 0 4 4h2a4 4 0 0 1 4 4M17 4v2a5 5 0 0 1-5 5M7 4L4.500 6.500M7 4l2.500 2.500",
  rewind: "M4 12a8 8 0 1 0 2.500-5.800M4 4v4.500h4.500",
  archive: "M4 5h16v4H4zM5.500 9v10h13V9M10 13h4",
  download: "M12 4v11M7 10.500l5 5 5-5M5 20h14",
  edit: "M5 19l1-4L16 5l3 3L9 18zM14 7l3 3",
  trash: "M5 7h14M9 7V4.500h6V7M7 7l1 13h8l1-13",
  file: "M6 3.500h8l4 4v13H6zM14 3.500V8h4",
  globe: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15 9h.01",
  list: "M9 6.500h11M9 12h11M9 17.500h11M4 6.500l1 1 1.500-2M4 12l1 1 1.500-2M4 17.500l1 1 1.500-2",
  people: "M9 11.500a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7M3 19.500c.5-3.500 3-5 6-5s5.500 1.500 6 5M16 5a3.500 3.500 0 0 1 0 6.500M18 15c1.700.700 2.700 2.200 3 4.500",
  tool: "M14.500 6.500a4 4 0 0 1 5-1l-2.700 2.700 1 2 2 1L22 8.500M14.500 6.500a4 4 0 0 0-.5 5L5 20.500 3.500 19l9-9",
  clock: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M12 7v5.500l3.500 2",
  alert: "M12 4L2.500 20h19zM12 10v4.500M12 17.300v.2",
  thinking: "M9 18h6M10 21h4M12 3a6 6 0 0 1 3.500 10.900c-.5.500-.5 1-.5 1.600H9c0-.6 0-1.100-.5-1.600A6 6 0 0 1 12 3",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2.500v2M12 19.500v2M2.500 12h2M19.500 12h2M5.300 5.300l1.400 1.400M17.300 17.300l1.400 1.400M5.300 18.700l1.400-1.400M17.300 6.700l1.400-1.400",
  moon: "M19.500 14.500A8 8 0 1 1 9.500 4.500a6.500 6.500 0 0 0 10 10",
  phone: "M7.500 3h9v18h-9zM11 18h2",
  lock: "M6 11h12v9H6zM8.500 11V8a3.500 3.500 0 0 1 7 0v3",
  eye: "M2.500 12c2-4 5.500-6.500 9.500-6.500s7.500 2.500 9.500 6.500c-2 4-5.500 6.500-9.500 6.500S4.500 16 2.500 12M12 9.500a2.500 2.500 0 1 0 0 5 2.500 2.500 0 0 0 0-5",
  changes: "M8 4v8M4 8h8M4 18h8M16 6l4 0M16 12h4M16 18h4",
  columns: "M4 5h16v14H4zM12 5v14",
  refresh: "M20 12a8 8 0 1 1-2.500-5.800M20 4v4.500h-4.500",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size }: { name: IconName; size?: number }) {
  return (
    <svg
      class="icon"
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="1.7"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
      {...(size ? { width: size, height: size } : {})}
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
