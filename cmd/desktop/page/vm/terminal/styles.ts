/**
 * Styles of xterm under a policy that allows none inline, and has no exception for it: style elements become constructed
 * style sheets, and style attributes are set property by property.
 */

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
export function allowSpanStyles(): void {
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
