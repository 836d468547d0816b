/** Theme, motion and title of the page. */
import { computed, effect } from "@preact/signals";
import { leavesOf } from "../page/settings/tree.ts";
import { asks, pastNames, settings } from "../store/store.ts";
import { text } from "../text/en.ts";
import { route } from "./route.ts";

/** The setting that switches transitions off; the theme's has a side effect of its own. */
const REDUCED_MOTION = "appearance.reduced_motion";

/** The setting of the terminal's size. */
const FONT_SIZE = "appearance.font_size";

/** `px` of the terminal's text. */
export const fontSize = computed(() => {
  const leaf = leavesOf(settings.value?.tree ?? []).find(({ id }) => id === FONT_SIZE);
  return typeof leaf?.effective_value === "number" ? leaf.effective_value : 14;
});

export function followLook(): void {
  effect(() => {
    const root = document.documentElement;
    for (const leaf of leavesOf(settings.value?.tree ?? [])) {
      if (leaf.metadata.side_effect === "toggle_theme") root.dataset.theme = String(leaf.effective_value);
      if (leaf.id === REDUCED_MOTION) {
        root.dataset.motion = leaf.effective_value === true ? "reduced" : "free";
      }
    }
  });
  effect(() => {
    const count = asks.value.length;
    const title = [...placeOf(route.value), text.app.name].join(" – ");
    document.title = count > 0 ? `(${count}) ${title}` : title;
  });
}

/** Where a person is, in words: the page, or a VM and its view. */
function placeOf([page = "overview", subject, view]: string[]): string[] {
  const names: Record<string, string> = text.page, views: Record<string, unknown> = text.vm;
  if (page !== "vm" && page !== "session") return [names[page] ?? text.page.overview];
  const vm = (page === "session" && pastNames.value.get(subject ?? "")) || subject;
  return [[vm, views[view ?? "timeline"] ?? text.vm.timeline].join(" · ")];
}
