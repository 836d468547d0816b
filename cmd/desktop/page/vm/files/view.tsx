import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { formatBytes } from "../../../../../lib/base/progress/mod.ts";
import { api, type FileEntry, type VmSummary } from "../../../api/routes.ts";
import { saveFile, Table } from "../../../part/common.tsx";
import { Icon } from "../../../part/icon.tsx";
import { When } from "../../../part/time.tsx";
import { act } from "../../../store/store.ts";
import { text } from "../../../text/en.ts";

/** Files of a VM's workspace, and the one that was chosen beside them. */
export function FilesView({ vm }: { vm: VmSummary }) {
  const folder = useSignal("");
  const list = useSignal<{ folder: string; entries: FileEntry[]; hasMore: boolean } | undefined>(undefined);
  const open = useSignal<FileEntry | undefined>(undefined);
  const words = text.files;
  const read = () =>
    act(async () => {
      const path = folder.peek();
      const { entries, truncated } = await api.files(vm.id, path);
      // A late answer is of a folder that was left.
      if (path !== folder.peek()) return;
      const sorted = entries.toSorted((a, b) => rankOf(a) - rankOf(b) || a.path.localeCompare(b.path));
      list.value = { folder: path, entries: sorted, hasMore: truncated };
    });
  useEffect(() => void read(), [vm.id, folder.value]);
  const enter = (path: string) => {
    open.value = undefined;
    folder.value = path;
  };
  const shown = list.value?.folder === folder.value ? list.value : undefined;
  return (
    <>
      <div class="filters">
        <nav class="path" aria-label={words.path}>
          {[...foldersOf(folder.value)].map(({ path, name }) => (
            <button
              key={path}
              type="button"
              class="ghost"
              aria-current={path === folder.value ? "location" : undefined}
              onClick={() => enter(path)}
            >
              {name}
            </button>
          ))}
        </nav>
        <button type="button" class="ghost" onClick={read}>
          <Icon name="refresh" /> {words.again}
        </button>
      </div>
      <div class={open.value ? "files open" : "files"}>
        <div>
          {shown === undefined && <p class="hint" role="status">{text.common.loading}</p>}
          {shown?.entries.length === 0 && <p class="empty">{words.empty}</p>}
          {shown && shown.entries.length > 0 && (
            <Table label={text.vm.files} head={[words.name, { number: words.size }, words.modified]}>
              {shown.entries.map((entry) => (
                <tr key={entry.path} class={entry.path === open.value?.path ? "chosen" : undefined}>
                  <th scope="row">
                    <EntryName
                      entry={entry}
                      onEnter={enter}
                      onOpen={() =>
                        open.value = entry}
                    />
                  </th>
                  <td class="number">{entry.type === "file" ? formatBytes(entry.size) : ""}</td>
                  <td>
                    <When at={entry.modified_unix_ms} />
                  </td>
                </tr>
              ))}
            </Table>
          )}
          {shown?.hasMore && <p class="hint">{words.more(vm.name)}</p>}
        </div>
        {open.value && (
          <FileContent
            key={open.value.path}
            vm={vm}
            file={open.value}
            onClose={() => open.value = undefined}
          />
        )}
      </div>
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
  if (type === "directory") {
    return (
      <button type="button" class="entry folder" onClick={() => onEnter(path)}>
        <Icon name="files" /> {`${name}/`}
      </button>
    );
  }
  if (type === "file") {
    return (
      <button type="button" class="entry" onClick={onOpen}>
        <Icon name="file" /> {name}
      </button>
    );
  }
  return (
    <span class="entry">
      <Icon name="link" /> {target === undefined ? name : `${name} → ${target}`}
    </span>
  );
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
function FileContent(
  { vm, file: { path, size }, onClose }: { vm: VmSummary; file: FileEntry; onClose: () => void },
) {
  const content = useSignal<string | undefined>(undefined);
  const isRead = useSignal(size > SHOWN_MAX);
  const words = text.files;
  useEffect(() => {
    if (size <= SHOWN_MAX) {
      act(async () => {
        const bytes = new Uint8Array(await (await api.file(vm.id, path)).arrayBuffer());
        content.value = bytes.subarray(0, SHOWN_MAX).includes(0)
          ? undefined
          : new TextDecoder().decode(bytes);
      }).finally(() => isRead.value = true);
    }
  }, [path]);
  const save = () =>
    act(async () => saveFile(path.split("/").at(-1)!, await (await api.file(vm.id, path)).blob()));
  return (
    <section class="file-content" aria-label={path}>
      <div class="head">
        <h2>{path}</h2>
        <span class="hint">{formatBytes(size)}</span>
        {size <= SAVED_MAX && (
          <button type="button" onClick={save}>
            <Icon name="download" /> {words.save}
          </button>
        )}
        <button type="button" class="ghost" aria-label={words.close(path)} onClick={onClose}>
          <Icon name="close" />
        </button>
      </div>
      {content.value === undefined
        ? <p class="hint" role="status">{isRead.value ? words.notShown : text.common.loading}</p>
        : (
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
