import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type FileEntry, type VmSummary } from "../../../api/routes.ts";
import { act } from "../../../store/act.ts";
import { text } from "../../../text/en.ts";

/** Most `bytes` of a file that is shown, and of one that is saved by the browser. */
const SHOWN_MAX = 256 * 1024;
const SAVED_MAX = 512 * 1024 * 1024;

/** The text of a file, and a way to save it. */
export function FileContent({ vm, file: { path, size } }: { vm: VmSummary; file: FileEntry }) {
  const content = useSignal<string | undefined>(undefined);
  const words = text.files;
  useEffect(() => {
    if (size <= SHOWN_MAX) {
      act(async () => {
        const bytes = new Uint8Array(await (await api.file(vm.id, path)).arrayBuffer());
        content.value = bytes.subarray(0, SHOWN_MAX).includes(0)
          ? undefined
          : new TextDecoder().decode(bytes);
      });
    }
  }, [path]);
  const save = () =>
    act(async () => {
      const address = URL.createObjectURL(await (await api.file(vm.id, path)).blob());
      const link = document.createElement("a");
      link.href = address;
      link.download = path.split("/").at(-1)!;
      link.click();
      URL.revokeObjectURL(address);
    });
  return (
    <section aria-label={path}>
      <h2>{path}</h2>
      {size <= SAVED_MAX && <button type="button" onClick={save}>{words.save}</button>}
      {content.value === undefined ? <p class="hint">{words.notShown}</p> : (
        <pre
          class="body log"
          tabIndex={0}
          role="group"
          aria-label={words.contentOf(path)}
        >{content.value}</pre>
      )}
    </section>
  );
}
