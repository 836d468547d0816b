import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ApiError } from "../../../api/client.ts";
import { api, type VmSummary, type WorkTaken, type WorkView } from "../../../api/routes.ts";
import { CommandLine } from "../../../part/command.tsx";
import { act, textOf } from "../../../store/act.ts";
import { text } from "../../../text/en.ts";
import { type Chosen, countOf, keyOf, takeOf, withFile, withPiece } from "./chosen.ts";
import { WorkFile } from "./file.tsx";

/** A VM's changes to the files brought in, by file and piece, to be taken to this machine or left. */
export function WorkSection({ vm }: { vm: VmSummary }) {
  const work = useSignal<WorkView | undefined>(undefined);
  const chosen = useSignal<Chosen>(new Map());
  const taken = useSignal<WorkTaken | undefined>(undefined);
  const words = text.work;
  const problem = useSignal<string | undefined>(undefined);
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
  const count = countOf(chosen.value, shown);
  const isEmpty = units.every(({ files }) => files.length === 0);
  return (
    <section aria-label={words.title}>
      <h2>{words.of(dir)}</h2>
      <div class="buttons">
        <button type="button" onClick={read}>{words.again}</button>
        <button type="button" class="main" disabled={count === 0} onClick={take}>{words.take(count)}</button>
      </div>
      {taken.value && <Taken taken={taken.value} />}
      {isEmpty && <p class="empty">{words.nothing}</p>}
      {units.map(({ path, files, files_count, commits }, unit) => (
        <div key={path}>
          {path !== "" && <h3>{path}</h3>}
          {commits.length > 0 && (
            <ul>
              {commits.map(({ id, subject, author }) => (
                <li key={id}>{`${id.slice(0, 12)} ${subject} (${author})`}</li>
              ))}
            </ul>
          )}
          <ul class="plain" aria-label={words.files(path)}>
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
  return (
    <div role="status">
      {branches.map(({ path, branch }) => (
        <div key={path}>
          <p>{words.onBranch(branch, path)}</p>
          <CommandLine command={`git merge ${branch}`} />
        </div>
      ))}
      {folder && <p>{words.inFolder(folder.written.length, folder.removed.length)}</p>}
      {folder?.conflicts.map((path) => <p key={path} class="warning">{words.conflict(path)}</p>)}
    </div>
  );
}
