/** How a terminal is drawn: by the graphics processor where there is one, else by the page's elements. */
import { WebglAddon } from "@xterm/addon-webgl";
import type { Terminal } from "@xterm/xterm";
import { withStyleSheets } from "./styles.ts";

/** Renderers that have no graphics processor; browsers do not count all of them as slow. */
const SOFTWARE = /swiftshader|llvmpipe|softpipe|software|basic render/i;

/**
 * Draws with WebGL; a machine without a graphics processor, whose WebGL is slower than elements, and one that takes the
 * context away (as after a driver's restart) go on with elements.
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
