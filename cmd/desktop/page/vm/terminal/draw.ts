/** xterm under this page's policy: its styles, and how it is drawn. */
import type { Terminal } from "@xterm/xterm";
import { WebglAddon } from "@xterm/addon-webgl";

// Styles of xterm under a policy that allows none inline, and has no exception for it: style elements become
// constructed style sheets, and style attributes are set property by property.

/** Runs `work`, in which xterm makes its style elements, and gives it elements that keep to the policy. */
export function withStyleSheets(work: () => void): void {
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

// How a terminal is drawn: by the graphics processor where there is one, else by the page's elements.

/** Renderers that have no graphics processor; browsers do not count all of them as slow. */
const SOFTWARE = /swiftshader|llvmpipe|softpipe|software|basic render/i;

/**
 * Draws with WebGL; a machine without a graphics processor, whose WebGL is slower than elements, and one that
 * takes the context away (as after a driver's restart) go on with elements.
 */
export function drawFast(terminal: Terminal): void {
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
