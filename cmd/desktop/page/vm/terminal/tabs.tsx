import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { api, type VmSummary } from "../../../api/routes.ts";
import { act } from "../../../store/store.ts";
import { text } from "../../../text/en.ts";
import { fontSize } from "../../../app/look.ts";
import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { Terminal } from "@xterm/xterm";
import { openSocket } from "../../../api/client.ts";
import { WebglAddon } from "@xterm/addon-webgl";

/** Command of an additional terminal. */
const SHELL = ["bash", "-l"];
/** The VM's own terminal, which all share. */
const MAIN = "";

/** The terminals of a VM: its own, and jobs that have one. All live on in the VM while not shown. */
export function TerminalTabs({ vm }: { vm: VmSummary }) {
  const jobs = useSignal<string[]>([]);
  const shown = useSignal(MAIN);
  const words = text.terminal;
  const load = () =>
    act(async () => {
      const { jobs: all } = await api.jobs(vm.id);
      jobs.value = all.filter(({ tty, state }) => tty && state === "Running").map(({ id }) => id);
    });
  useEffect(() => void load(), [vm.id]);
  const add = () =>
    act(async () => {
      const job = await api.startJob(vm.id, { command: SHELL, tty: true });
      if (job.state === "Ended") throw new Error(words.refused(job.reason ?? ""));
      await load();
      shown.value = job.id;
    });
  // Its view stays, with the program's last output.
  const forget = (ended: string) => jobs.value = jobs.value.filter((job) => job !== ended);
  const name = (job: string) => job === MAIN ? words.main : words.job(job);
  return (
    <>
      <div class="terminals" role="group" aria-label={words.all}>
        {[MAIN, ...jobs.value].map((job) => (
          <button
            key={job}
            type="button"
            aria-pressed={job === shown.value}
            onClick={() => shown.value = job}
          >
            {name(job)}
          </button>
        ))}
        <button type="button" onClick={add}>{words.add}</button>
      </div>
      <TerminalView
        key={shown.value}
        vm={vm}
        job={shown.value || undefined}
        onEnd={() => forget(shown.value)}
      />
    </>
  );
}

/** One terminal of a VM, which lives on in the VM while not shown. */
function TerminalView({ vm, job, onEnd }: { vm: VmSummary; job?: string; onEnd: () => void }) {
  const host = useRef<HTMLDivElement>(null);
  const terminal = useRef<OpenTerminal>(null);
  const find = useRef<HTMLInputElement>(null);
  const round = useSignal(0);
  const isOver = useSignal(false);
  const words = text.terminal;
  useEffect(() => {
    isOver.value = false;
    const opened = openTerminal(host.current!, vm.id, {
      job,
      fontSize: fontSize.value,
      onEnd: () => {
        isOver.value = true;
        onEnd();
      },
      onLeave: () => find.current?.focus(),
    });
    terminal.current = opened;
    opened.focus();
    return () => opened.close();
  }, [vm.id, job, round.value, fontSize.value]);
  return (
    <>
      <div class="buttons">
        <input
          ref={find}
          type="search"
          aria-label={words.find}
          placeholder={words.find}
          onKeyDown={({ key, currentTarget }) =>
            key === "Enter" && terminal.current?.find(currentTarget.value)}
        />
        {isOver.value && job === undefined && (
          <button type="button" onClick={() => round.value++}>{words.again}</button>
        )}
      </div>
      <p role="status">{isOver.value && words.over}</p>
      <div class="terminal" ref={host} role="group" aria-label={words.of(vm.name)} />
      <p class="hint">{words.links}</p>
    </>
  );
}

// Styles of xterm under a policy that allows none inline, and has no exception for it: style elements become constructed
// style sheets, and style attributes are set property by property.

/** Runs `work`, in which xterm makes its style elements, and gives it elements that keep to the policy. */
function withStyleSheets(work: () => void): void {
  document.createElement = createElement as Document["createElement"];
  try {
    work();
  } finally {
    // The document's own property goes, and that of its class is left.
    delete (document as Partial<Document>).createElement;
  }
}

/** Colours that are not in the palette come as attributes of spans. */
function allowSpanStyles(): void {
  HTMLSpanElement.prototype.setAttribute = function (name, value) {
    if (name === "style") this.style.cssText = value;
    else Element.prototype.setAttribute.call(this, name, value);
  };
}

function createElement(tag: string): HTMLElement {
  return tag === "style" ? makeStyle() : Document.prototype.createElement.call(document, tag);
}

/** An element that xterm fills with text and removes, as it does with a style element. */
function makeStyle(): HTMLElement {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  const element = Document.prototype.createElement.call(document, "span");
  element.hidden = true;
  Object.defineProperty(element, "textContent", { set: (text: string) => sheet.replaceSync(text) });
  Object.defineProperty(element, "remove", {
    value() {
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet);
      Element.prototype.remove.call(element);
    },
  });
  return element;
}

allowSpanStyles();

/** Lines that a terminal keeps. */
const SCROLLBACK = 10_000;
/** Close code of a socket that never opened (RFC 6455 §7.4.1). */
const ABNORMAL = 1006;

interface OpenTerminal {
  find(text: string): void;
  focus(): void;
  close(): void;
}

/**
 * Opens a terminal in `host`. Its output stays in it: the title, the clipboard and the page are out of its reach.
 *
 * @param job the terminal of a job; absent: the VM's own
 * @param onLeave called at control and ], which leaves a terminal in sbx shell too: tab is the program's
 * @param onEnd called when the socket ends, with its close code
 */
function openTerminal(
  host: HTMLElement,
  vm: string,
  { job, fontSize, onEnd, onLeave }: {
    job?: string;
    fontSize: number;
    onEnd: (code: number) => void;
    onLeave: () => void;
  },
): OpenTerminal {
  const terminal = new Terminal({
    fontSize,
    scrollback: SCROLLBACK,
    screenReaderMode: true,
    linkHandler: null,
  });
  terminal.attachCustomKeyEventHandler(({ type, ctrlKey, key }) => {
    if (!ctrlKey || key !== "]") return true;
    if (type === "keydown") onLeave();
    return false;
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
  const query = job === undefined ? "" : `?job=${encodeURIComponent(job)}`;
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
  const take = (opened: WebSocket) => {
    if (isClosed) return opened.close();
    socket = opened;
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => {
      if (early) {
        const typed = early;
        early = undefined;
        resize();
        typed.forEach(send);
      }
      terminal.write(new Uint8Array(data));
    };
    socket.onclose = ({ code }) => onEnd(code);
  };
  openSocket(`/terminal/${encodeURIComponent(vm)}${query}`).then(take, () => !isClosed && onEnd(ABNORMAL));
  const encoder = new TextEncoder();
  terminal.onData((text) => send(encoder.encode(text)));
  const observer = new ResizeObserver(resize);
  observer.observe(host);
  return {
    find: (text) => void search.findNext(text),
    focus: () => terminal.focus(),
    close() {
      isClosed = true;
      observer.disconnect();
      if (socket) socket.onclose = null;
      socket?.close();
      terminal.dispose();
    },
  };
}

/** Opens a link of the output only while control is held, and without a way back to this page. */
function openLink(event: MouseEvent, address: string): void {
  if (event.ctrlKey || event.metaKey) open(address, "_blank", "noopener,noreferrer");
}

// How a terminal is drawn: by the graphics processor where there is one, else by the page's elements.

/** Renderers that have no graphics processor; browsers do not count all of them as slow. */
const SOFTWARE = /swiftshader|llvmpipe|softpipe|software|basic render/i;

/**
 * Draws with WebGL; a machine without a graphics processor, whose WebGL is slower than elements, and one that takes the
 * context away (as after a driver's restart) go on with elements.
 */
function drawFast(terminal: Terminal): void {
  if (!hasGraphicsProcessor()) return;
  try {
    const addon = new WebglAddon();
    // xterm draws with elements again, and makes their styles.
    addon.onContextLoss(() => withStyleSheets(() => addon.dispose()));
    terminal.loadAddon(addon);
  } catch {
    // Its elements are there already.
  }
}

function hasGraphicsProcessor(): boolean {
  const context = document.createElement("canvas").getContext("webgl2", {
    failIfMajorPerformanceCaveat: true,
  });
  if (context === null) return false;
  const info = context.getExtension("WEBGL_debug_renderer_info");
  const name = String(context.getParameter(info?.UNMASKED_RENDERER_WEBGL ?? context.RENDERER));
  // Browsers have few contexts at once.
  context.getExtension("WEBGL_lose_context")?.loseContext();
  return !SOFTWARE.test(name);
}
