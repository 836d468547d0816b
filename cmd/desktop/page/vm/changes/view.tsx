import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import {
  api,
  type SnapshotInfo,
  type VmSummary,
  type WorkTaken,
  type WorkView,
} from "../../../api/routes.ts";
import { CommandLine, dateOf, Dialog } from "../../../part/common.tsx";
import { act, textOf } from "../../../store/store.ts";
import { text } from "../../../text/en.ts";
import { ApiError } from "../../../api/client.ts";
import {
  allFiles,
  type Chosen,
  countOf,
  flaggedOf,
  keyOf,
  takeOf,
  withFile,
  withPiece,
} from "../work/chosen.ts";

/** What changed in the workspace since a snapshot, to be kept or put back. */
export function ChangesView({ vm }: { vm: VmSummary }) {
  const snapshots = useSignal<SnapshotInfo[] | undefined>(undefined);
  const chosen = useSignal<string | undefined>(undefined);
  const words = text.changes;
  const read = () =>
    act(async () => {
      snapshots.value = (await api.snapshots(vm.id)).snapshots.toReversed();
      chosen.value ??= snapshots.value[0]?.id;
    });
  useEffect(() => void read(), [vm.id]);
  const make = async () => {
    await act(() => api.createSnapshot(vm.id), words.made);
    chosen.value = undefined;
    await read();
  };
  const undo = async () => {
    await act(() => api.undo(vm.id), words.undone);
    chosen.value = undefined;
    await read();
  };
  return (
    <>
      {vm.status === "Running" && <WorkSection vm={vm} />}
      <h2>{words.snapshots}</h2>
      <div class="filters">
        {snapshots.value && snapshots.value.length > 0 && (
          <label>
            {words.since}{" "}
            <select value={chosen.value} onChange={({ currentTarget }) => chosen.value = currentTarget.value}>
              {snapshots.value.map(({ id, label, created_unix_ms }) => (
                <option key={id} value={id}>{words.label(id, label ?? dateOf(created_unix_ms))}</option>
              ))}
            </select>
          </label>
        )}
        <button type="button" onClick={make}>{words.make}</button>
        <button type="button" onClick={undo}>{words.undoLast}</button>
      </div>
      {snapshots.value?.length === 0 && <p class="empty">{words.none}</p>}
      {chosen.value && <ChangeList key={chosen.value} vm={vm.id} snapshot={chosen.value} onRestored={read} />}
    </>
  );
}

type Change = Awaited<ReturnType<typeof api.diff>>["changes"][number];

interface Props {
  vm: string;
  snapshot: string;
  onRestored: () => void;
}

/** Changed paths; the chosen ones, or all, are put back as they were. */
function ChangeList({ vm, snapshot, onRestored }: Props) {
  const changes = useSignal<Change[] | undefined>(undefined);
  const chosen = useSignal<ReadonlySet<string>>(new Set());
  const words = text.changes;
  const read = () => act(async () => changes.value = (await api.diff(vm, snapshot)).changes);
  useEffect(() => void read(), [vm, snapshot]);
  const toggle = (path: string) => chosen.value = chosen.value.symmetricDifference(new Set([path]));
  const undo = async () => {
    const paths = chosen.value.size === 0 ? undefined : [...chosen.value];
    await act(() => api.restore(vm, snapshot, paths), words.undone);
    chosen.value = new Set();
    await read();
    onRestored();
  };
  if (changes.value === undefined) return <p>{text.common.loading}</p>;
  if (changes.value.length === 0) return <p class="empty">{words.noChanges}</p>;
  return (
    <>
      <table aria-label={text.vm.changes}>
        <thead>
          <tr>
            <th scope="col">{words.path}</th>
            <th scope="col">{words.change}</th>
            <th scope="col">{words.size}</th>
          </tr>
        </thead>
        <tbody>
          {changes.value.map(({ path, change, size_before, size_after }) => (
            <tr key={path}>
              <th scope="row">
                <label class="check">
                  <input
                    type="checkbox"
                    aria-label={words.choose(path)}
                    checked={chosen.value.has(path)}
                    onChange={() => toggle(path)}
                  />
                  {path}
                </label>
              </th>
              <td>{change}</td>
              <td>{`${size_before ?? text.common.none} → ${size_after ?? text.common.none}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <div class="buttons">
        <button type="button" class="danger" onClick={undo}>{words.undo(chosen.value.size)}</button>
      </div>
    </>
  );
}

/** A VM's changes to the files brought in, by file and piece, to be taken to this machine or left. */
function WorkSection({ vm }: { vm: VmSummary }) {
  const work = useSignal<WorkView | undefined>(undefined);
  const chosen = useSignal<Chosen>(new Map());
  const taken = useSignal<WorkTaken | undefined>(undefined);
  const words = text.work;
  const problem = useSignal<string | undefined>(undefined);
  const isAsking = useSignal(false);
  const read = async () => {
    chosen.value = new Map();
    work.value = problem.value = undefined;
    try {
      work.value = await api.work(vm.id);
    } catch (error) {
      problem.value = error instanceof ApiError && error.code === "repo.none"
        ? words.none(vm.name)
        : textOf(error);
    }
  };
  useEffect(() => void read(), [vm.id]);
  if (problem.value) {
    return (
      <p class="hint" role="status">
        {problem.value} <button type="button" onClick={read}>{words.again}</button>
      </p>
    );
  }
  if (work.value === undefined) return <p>{text.common.loading}</p>;
  const { dir, units } = work.value;
  const shown = work.value;
  const take = async () => {
    await act(async () => taken.value = await api.takeWork(vm.id, takeOf(chosen.value, shown)), words.taken);
    await read();
  };
  const takeAll = (isFlaggedToo: boolean) => {
    chosen.value = allFiles(shown, isFlaggedToo);
    if (flaggedOf(chosen.value, shown).length === 0) take();
    else isAsking.value = true;
  };
  const hasFlagged = units.some(({ files }) => files.some(({ notable }) => notable));
  const count = countOf(chosen.value, shown);
  const isOne = new Set(units.map(({ repository }) => repository)).size === 1;
  const titleOf = (unit: typeof units[number]) =>
    isOne ? unit.path : [unit.repository, unit.path].filter((part) => part !== "").join("/");
  const isEmpty = units.every(({ files }) => files.length === 0);
  return (
    <section aria-label={words.title}>
      <h2>
        {words.of(isOne ? dir : units.filter(({ path }) => path === "").map((unit) => unit.dir).join(", "))}
      </h2>
      <div class="buttons">
        <button type="button" onClick={read}>{words.again}</button>
        {count > 0
          ? (
            <button
              type="button"
              class="main"
              onClick={() => flaggedOf(chosen.value, shown).length > 0 ? isAsking.value = true : take()}
            >
              {words.take(count)}
            </button>
          )
          : !isEmpty && (
            <button type="button" class="main" onClick={() => takeAll(true)}>{words.takeAll}</button>
          )}
        {count === 0 && hasFlagged && (
          <button type="button" onClick={() => takeAll(false)}>{words.takeUnflagged}</button>
        )}
      </div>
      {isAsking.value && (
        <Dialog title={words.flaggedTitle} onClose={() => isAsking.value = false}>
          <p>{words.flaggedWhy}</p>
          <ul class="scroll">
            {flaggedOf(chosen.value, shown).map((path) => (
              <li key={path}>
                <code>{path}</code>
              </li>
            ))}
          </ul>
          <div class="buttons">
            <button type="button" onClick={() => isAsking.value = false}>{text.common.cancel}</button>
            <button type="button" class="danger" onClick={() => [isAsking.value = false, take()]}>
              {words.takeFlagged}
            </button>
          </div>
        </Dialog>
      )}
      {taken.value && <Taken taken={taken.value} />}
      {isEmpty && <p class="empty">{words.nothing}</p>}
      {units.map((each, unit) => ({ ...each, unit, title: titleOf(each) })).map((
        { title, files, files_count, commits, unit },
      ) => (
        <div key={title}>
          {title !== "" && <h3>{title}</h3>}
          {commits.length > 0 && (
            <ul>
              {commits.map(({ id, subject, author }) => (
                <li key={id}>{`${id.slice(0, 12)} ${subject} (${author})`}</li>
              ))}
            </ul>
          )}
          <ul class="plain" aria-label={words.files(title)}>
            {files.map((file, at) => {
              const key = keyOf(unit, at);
              return (
                <WorkFile
                  key={file.path}
                  file={file}
                  chosen={chosen.value.get(key)}
                  onFile={(isChosen) => chosen.value = withFile(chosen.value, key, isChosen)}
                  onPiece={(piece) => chosen.value = withPiece(chosen.value, key, piece, file.hunks.length)}
                />
              );
            })}
          </ul>
          {files_count > files.length && <p class="hint">{words.more(files_count - files.length)}</p>}
        </div>
      ))}
    </section>
  );
}

function Taken({ taken: { branches, folder } }: { taken: WorkTaken }) {
  const words = text.work;
  const isOne = new Set(branches.map(({ repository }) => repository)).size === 1;
  return (
    <div role="status">
      {branches.map(({ repository, dir, path, branch }) => (
        <div key={`${repository}/${path}`}>
          <p>{words.onBranch(branch, isOne ? path : dir)}</p>
          <CommandLine command={`git merge ${branch}`} />
        </div>
      ))}
      {folder && <p>{words.inFolder(folder.written.length, folder.removed.length)}</p>}
      {folder?.conflicts.map((path) => <p key={path} class="warning">{words.conflict(path)}</p>)}
    </div>
  );
}

type File = WorkView["units"][number]["files"][number];

interface FileProps {
  file: File;
  chosen: "all" | ReadonlySet<number> | undefined;
  onFile: (isChosen: boolean) => void;
  onPiece: (piece: number) => void;
}

/** One changed file: its diff, to be taken whole or piece by piece. */
function WorkFile({ file, chosen, onFile, onPiece }: FileProps) {
  const isOpen = useSignal(false);
  const words = text.work;
  const { path, status, added, removed, notable_by, hunks } = file;
  return (
    <li class="change">
      <div class="buttons">
        <label class="check">
          <input
            type="checkbox"
            aria-label={words.takeFile(path)}
            checked={chosen === "all"}
            onChange={({ currentTarget }) => onFile(currentTarget.checked)}
          />
          <code>{path}</code>
        </label>
        <span class={`change-${status}`}>{words.status[status]}</span>
        {added !== undefined && <span class="hint">{words.lines(added, removed ?? 0)}</span>}
        {notable_by && <span class="tag">{words.notable(notable_by)}</span>}
        <button
          type="button"
          aria-expanded={isOpen.value}
          aria-label={words.show(path)}
          onClick={() => isOpen.value = !isOpen.value}
        >
          {words.diff}
        </button>
      </div>
      {isOpen.value && hunks.map(({ lines }, at) => (
        <div key={at} class="hunk">
          <label class="check">
            <input
              type="checkbox"
              checked={chosen === "all" || chosen?.has(at) === true}
              onChange={() => onPiece(at)}
            />
            {words.piece(at + 1, hunks.length, path)}
          </label>
          <Lines lines={lines} label={words.piece(at + 1, hunks.length, path)} />
        </div>
      ))}
      {isOpen.value && file.text && <Lines lines={file.text.split("\n")} label={words.show(path)} />}
      {isOpen.value && file.is_cut && <p class="hint">{words.cut}</p>}
    </li>
  );
}

function Lines({ lines, label }: { lines: string[]; label: string }) {
  return (
    <pre class="body" tabIndex={0} role="group" aria-label={label}>
      {lines.map((line, at) => <span key={at} class={CLASSES[line[0]]}>{`${line}\n`}</span>)}
    </pre>
  );
}

const CLASSES: Record<string, string> = { "+": "plus", "-": "minus", "@": "place" };
