import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type FileEntry, type VmSummary } from "../../../api/routes.ts";
import { dateOf, saveFile, Table } from "../../../part/common.tsx";
import { act } from "../../../store/store.ts";
import { text } from "../../../text/en.ts";

/** Files of a VM's workspace. */
export function FilesView({ vm }: { vm: VmSummary }) {
  const folder = useSignal("");
  const entries = useSignal<FileEntry[] | undefined>(undefined);
  const hasMore = useSignal(false);
  const open = useSignal<FileEntry | undefined>(undefined);
  const words = text.files;
  const read = () =>
    act(async () => {
      const list = await api.files(vm.id, folder.value);
      hasMore.value = list.truncated;
      entries.value = list.entries.toSorted((a, b) => rankOf(a) - rankOf(b) || a.path.localeCompare(b.path));
    });
  useEffect(() => void read(), [vm.id, folder.value]);
  const enter = (path: string) => {
    open.value = undefined;
    folder.value = path;
  };
  return (
    <>
      <div class="filters">
        <nav aria-label={words.path}>
          {[...foldersOf(folder.value)].map(({ path, name }) => (
            <button
              key={path}
              type="button"
              onClick={() => enter(path)}
            >
              {name}
            </button>
          ))}
        </nav>
        <button type="button" onClick={read}>{words.again}</button>
      </div>
      {entries.value?.length === 0 && <p class="empty">{words.empty}</p>}
      {entries.value && entries.value.length > 0 && (
        <Table label={text.vm.files} head={[words.name, words.size, words.modified]}>
          {entries.value.map((entry) => (
            <tr key={entry.path}>
              <th scope="row">
                <EntryName
                  entry={entry}
                  onEnter={enter}
                  onOpen={() => open.value = entry}
                />
              </th>
              <td>{entry.type === "file" ? entry.size : text.common.none}</td>
              <td>{dateOf(entry.modified_unix_ms)}</td>
            </tr>
          ))}
        </Table>
      )}
      {hasMore.value && <p class="hint">{words.more(vm.name)}</p>}
      {open.value && <FileContent key={open.value.path} vm={vm} file={open.value} />}
    </>
  );
}

function EntryName(
  { entry: { path, type, target }, onEnter, onOpen }: {
    entry: FileEntry;
    onEnter: (path: string) => void;
    onOpen: () => void;
  },
) {
  const name = path.split("/").at(-1)!;
  if (type === "directory") return <button type="button" onClick={() => onEnter(path)}>{`${name}/`}</button>;
  if (type === "file") return <button type="button" onClick={onOpen}>{name}</button>;
  return <span>{target === undefined ? name : `${name} → ${target}`}</span>;
}

const rankOf = ({ type }: FileEntry) => type === "directory" ? 0 : 1;

function* foldersOf(folder: string): Generator<{ path: string; name: string }> {
  yield { path: "", name: text.files.root };
  const parts = folder.split("/").filter((part) => part !== "");
  for (const at of parts.keys()) yield { path: parts.slice(0, at + 1).join("/"), name: parts[at] };
}

/** Most `bytes` of a file that is shown, and of one that is saved by the browser. */
const SHOWN_MAX = 256 * 1024;
const SAVED_MAX = 512 * 1024 * 1024;

/** The text of a file, and a way to save it. */
function FileContent({ vm, file: { path, size } }: { vm: VmSummary; file: FileEntry }) {
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
    act(async () => saveFile(path.split("/").at(-1)!, await (await api.file(vm.id, path)).blob()));
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
