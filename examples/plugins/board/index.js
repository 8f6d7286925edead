// The board's page: a module that the host application loads and mounts into an element of its own.
// `mount` is called when the tab is opened, `unmount` when it is closed.

let socket = null;

export function mount(container, api) {
  container.replaceChildren();
  const list = document.createElement("ul");
  const form = document.createElement("form");
  const input = document.createElement("input");
  input.placeholder = "Write on the board";
  form.append(input);
  container.append(list, form);

  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const url = new URL(`${scheme}//${location.host}/plugin-ws/board`);
  // The token of the host application: it ends at the gateway and never reaches the plugin's server.
  url.searchParams.set("token", localStorage.getItem("auth-token") ?? "");
  socket = new WebSocket(url);

  socket.addEventListener("message", (event) => {
    const row = document.createElement("li");
    row.textContent = event.data; // as text: what others write is never markup
    list.append(row);
  });
  socket.addEventListener("close", (event) => {
    input.disabled = true;
    input.placeholder = `The board is closed (${event.code} ${event.reason})`;
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (input.value && socket?.readyState === WebSocket.OPEN) {
      socket.send(input.value);
      input.value = "";
    }
  });
}

export function unmount(container) {
  socket?.close(1000, "the tab was closed");
  socket = null;
  container.replaceChildren();
}
