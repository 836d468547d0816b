/** A terminal of a VM in an element of the page. */
import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { Terminal } from "@xterm/xterm";
import { openSocket } from "../../../api/client.ts";
import { drawFast, withStyleSheets } from "./draw.ts";
import { followTyped } from "./typed.ts";

/** Lines that a terminal keeps. */
const SCROLLBACK = 10_000;
/** Close code of a socket whose terminal has ended (docs/design/contracts/02-http.md §2, "Terminal"). */
const ENDED = 1000;

/** As the rest of the page; a graphics processor draws no font of a style sheet. */
const FONT = 'ui-monospace, "SF Mono", "DejaVu Sans Mono", monospace';
/** Colours that are read on the dark ground of both themes (style/page.css has the same ground). */
const THEME = {
  background: "#0b0d10",
  foreground: "#e6e8eb",
  cursor: "#e6e8eb",
  selectionBackground: "#85b4ff55",
  black: "#3b424d",
  red: "#ff9298",
  green: "#8fcbaa",
  yellow: "#f0bd6e",
  blue: "#85b4ff",
  magenta: "#d3a6f7",
  cyan: "#7fd1d6",
  white: "#c9ced6",
  brightBlack: "#8d96a3",
  brightRed: "#ffb3b7",
  brightGreen: "#aee0c3",
  brightYellow: "#f8d59b",
  brightBlue: "#aecbff",
  brightMagenta: "#e3c6fb",
  brightCyan: "#a8e3e6",
  brightWhite: "#ffffff",
};

interface OpenTerminal {
  find(text: string): void;
  focus(): void;
  /** Attaches again after the connection was lost; the VM replays its output. */
  reconnect(): void;
  close(): void;
}

interface Options {
  /** the terminal of a job; absent: the VM's own */
  job?: string;
  fontSize: number;
  /** the terminal is attached, and has its output */
  onOpen: () => void;
  /** the program has ended */
  onEnd: () => void;
  /** the connection is lost, and the program runs on */
  onLost: () => void;
  /** control and ] leaves a terminal in sbx shell too: tab is the program's */
  onLeave: () => void;
}

/**
 * Opens a terminal in `host`. Its output stays in it: the title, the clipboard and
 * the page are out of its reach.
 */
export function openTerminal(
  host: HTMLElement,
  vm: string,
  { job, fontSize, onOpen, onEnd, onLost, onLeave }: Options,
): OpenTerminal {
  const terminal = new Terminal({
    fontSize,
    fontFamily: FONT,
    // Room for the underscore, which elements of one line's height cut off.
    lineHeight: 1.2,
    theme: THEME,
    scrollback: SCROLLBACK,
    screenReaderMode: true,
    linkHandler: null,
  });
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.ctrlKey && event.key === "]") {
      if (event.type === "keydown") onLeave();
      return false;
    }
    return !isOfClipboard(event, terminal);
  });
  const fit = new FitAddon();
  const search = new SearchAddon();
  terminal.loadAddon(fit);
  terminal.loadAddon(search);
  terminal.loadAddon(new WebLinksAddon(openLink));
  withStyleSheets(() => {
    terminal.open(host);
    drawFast(terminal);
  });
  const encoder = new TextEncoder();
  let socket: WebSocket | undefined;
  let isClosed = false;
  /** keys typed before the first frame; undefined from then on */
  let early: Uint8Array<ArrayBuffer>[] | undefined = [];
  const send = (data: string | Uint8Array<ArrayBuffer>) => {
    if (early) typeof data === "string" || early.push(data);
    else if (socket?.readyState === WebSocket.OPEN) socket.send(data);
  };
  const resize = () => {
    fit.fit();
    send(JSON.stringify({ cols: terminal.cols, rows: terminal.rows }));
  };
  const begin = (typed: Uint8Array<ArrayBuffer>[]) => {
    early = undefined;
    // Its output from before a lost connection comes again.
    terminal.reset();
    resize();
    typed.forEach(send);
    onOpen();
  };
  const take = (opened: WebSocket) => {
    if (isClosed) return opened.close();
    socket = opened;
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => {
      if (early) begin(early);
      terminal.write(new Uint8Array(data));
    };
    socket.onclose = ({ code }) => code === ENDED ? onEnd() : onLost();
  };
  const connect = () => {
    early = [];
    const query = job === undefined ? "" : `?job=${encodeURIComponent(job)}`;
    openSocket(`/terminal/${encodeURIComponent(vm)}${query}`).then(take, () => !isClosed && onLost());
  };
  connect();
  terminal.onData((text) => send(encoder.encode(text)));
  followTyped(terminal.textarea!, (text) => terminal.input(text));
  const observer = new ResizeObserver(resize);
  observer.observe(host);
  return {
    find: (text) => void search.findNext(text),
    focus: () => terminal.focus(),
    reconnect: connect,
    close() {
      isClosed = true;
      observer.disconnect();
      if (socket) socket.onclose = null;
      socket?.close();
      terminal.dispose();
    },
  };
}

/**
 * Control, shift and C copy, control, shift and V paste, as in terminals of this platform.
 * @returns true: it is no input
 */
function isOfClipboard(event: KeyboardEvent, terminal: Terminal): boolean {
  const { type, ctrlKey, shiftKey, altKey, code } = event;
  if (!ctrlKey || !shiftKey || altKey || code !== "KeyC" && code !== "KeyV") return false;
  if (code === "KeyV") return true; // The browser pastes, which xterm takes.
  // The browser's own meaning of these keys is its developer tools.
  event.preventDefault();
  const selected = terminal.getSelection();
  if (type === "keydown" && selected !== "") navigator.clipboard.writeText(selected);
  return true;
}

/** Opens a link of the output only while control is held, and without a way back to this page. */
function openLink(event: MouseEvent, address: string): void {
  if (event.ctrlKey || event.metaKey) open(address, "_blank", "noopener,noreferrer");
}
