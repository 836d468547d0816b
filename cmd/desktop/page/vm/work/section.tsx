/** A VM's changes to the files brought in, by file and piece, to be taken to this machine or left. */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { ApiError } from "../../../api/client.ts";
import { api, type VmSummary, type WorkTaken, type WorkView } from "../../../api/routes.ts";
import { CommandLine, ConfirmDialog } from "../../../part/common.tsx";
import { Icon } from "../../../part/icon.tsx";
import { act, textOf } from "../../../store/store.ts";
import { Turns } from "../../../store/turns.ts";
import { text } from "../../../text/en.ts";
import { allFiles, type Chosen, countOf, flaggedOf, keyOf, takeOf, withFile, withPiece } from "./chosen.ts";
import { WorkFile } from "./file.tsx";
import { onChange } from "./changed.ts";

type Unit = WorkView["units"][number];

export function WorkSection({ vm }: { vm: VmSummary }) {
  const work = useSignal<WorkView | undefined>(undefined);
  const chosen = useSignal<Chosen>(new Map());
  const viewed = useSignal<ReadonlySet<string>>(new Set());
  const taken = useSignal<WorkTaken | undefined>(undefined);
  const message = useSignal("");
  const words = text.work;
  const problem = useSignal<string | undefined>(undefined);
  /** true where no folder was brought in */
  const isWithout = useSignal(false);
  const isAsking = useSignal(false);
  const isStale = useSignal(false);
  const turns = useMemo(() => new Turns(), [vm.id]);
  /** @param isQuiet the work stays in sight until there is an answer */
  const read = async (isQuiet = false) => {
    isStale.value = false;
    if (!isQuiet) {
      chosen.value = new Map();
      work.value = problem.value = undefined;
    }
    // Pieces are chosen by their place: an answer that comes after a choice would put others there.
    const isLate = () => isQuiet && chosen.peek().size > 0;
    try {
      await turns.take(() => api.work(vm.id), (answer) => {
        if (isLate()) return void (isStale.value = true);
        work.value = answer;
        problem.value = undefined;
      });
    } catch (error) {
      if (isLate()) return void (isStale.value = true);
      isWithout.value = error instanceof ApiError && error.code === "repo.none";
      problem.value = isWithout.value ? words.none : textOf(error);
    }
  };
  useEffect(() => void read(), [vm.id]);
  // A selection is a person's: its pieces stay until they refresh them.
  const refresh = () => {
    if (chosen.peek().size > 0) isStale.value = true;
    else read(true);
  };
  useEffect(() => onChange(vm.id, refresh), [vm.id]);
  if (problem.value && isWithout.value) {
    return (
      <section class="nothing" aria-label={words.title}>
        <Icon name="work" size={24} />
        <p role="status">{problem.value}</p>
        <CommandLine command={words.push(vm.name)} />
        <button type="button" class="ghost" onClick={() => read()}>{words.again}</button>
      </section>
    );
  }
  if (problem.value) {
    return (
      <p class="hint" role="status">
        {problem.value} <button type="button" onClick={() => read()}>{words.again}</button>
      </p>
    );
  }
  if (work.value === undefined) return <p>{text.common.loading}</p>;
  const { dir, units } = work.value;
  const shown = work.value;
  const take = async () => {
    const request = { ...takeOf(chosen.value, shown), message: message.value.trim() || undefined };
    const isTaken = await act(async () => taken.value = await api.takeWork(vm.id, request), words.taken);
    if (isTaken) message.value = "";
    await read();
  };
  const takeChosen = () => {
    if (flaggedOf(chosen.value, shown).length > 0) isAsking.value = true;
    else take();
  };
  const takeAll = (isFlaggedToo: boolean) => {
    chosen.value = allFiles(shown, isFlaggedToo);
    takeChosen();
  };
  const files = units.flatMap((unit) => unit.files);
  const count = countOf(chosen.value, shown);
  const isOne = new Set(units.map(({ repository }) => repository)).size === 1;
  const titleOf = (unit: Unit) =>
    isOne ? unit.path : [unit.repository, unit.path].filter((part) => part !== "").join("/");
  const sum = (key: "added" | "removed") => files.reduce((all, file) => all + (file[key] ?? 0), 0);
  return (
    <section aria-label={words.title}>
      <div class="work-head">
        <h2>
          {words.of(isOne ? dir : units.filter(({ path }) => path === "").map((unit) => unit.dir).join(", "))}
        </h2>
        <p class="hint">
          {words.summary(units.reduce((all, unit) => all + unit.files_count, 0))}{" "}
          <span class="plus">+{sum("added")}</span> <span class="minus">−{sum("removed")}</span>
        </p>
        {isStale.value && <span class="pill ask" role="status">{words.stale}</span>}
        <button type="button" onClick={() => read()}>{words.again}</button>
      </div>
      {taken.value && <Taken taken={taken.value} branch={shown.branch} />}
      {files.length === 0 && <p class="empty">{words.nothing}</p>}
      {units.map((unit, at) => (
        <UnitFiles
          key={titleOf(unit)}
          title={titleOf(unit)}
          unit={unit}
          at={at}
          chosen={chosen.value}
          onChosen={(now) => chosen.value = now}
          viewed={viewed.value}
          onViewed={(key) => viewed.value = viewed.value.symmetricDifference(new Set([key]))}
        />
      ))}
      {files.length > 0 && (
        <div class="batch take">
          {units.some(({ is_repository }) => is_repository) && (
            <input
              type="text"
              aria-label={words.message}
              placeholder={words.message}
              value={message.value}
              onInput={({ currentTarget }) => message.value = currentTarget.value}
            />
          )}
          {count > 0
            ? <button type="button" class="main" onClick={takeChosen}>{words.take(count)}</button>
            : <button type="button" class="main" onClick={() => takeAll(true)}>{words.takeAll}</button>}
          {count === 0 && files.some(({ notable }) => notable) && (
            <button
              type="button"
              onClick={() => takeAll(false)}
            >
              {words.takeUnflagged}
            </button>
          )}
        </div>
      )}
      {isAsking.value && (
        <ConfirmDialog
          title={words.flaggedTitle}
          label={words.takeFlagged}
          onClose={() => isAsking.value = false}
          onConfirm={() => [isAsking.value = false, take()]}
        >
          <p>{words.flaggedWhy}</p>
          <ul class="scroll">
            {flaggedOf(chosen.value, shown).map((path) => (
              <li key={path}>
                <code>{path}</code>
              </li>
            ))}
          </ul>
        </ConfirmDialog>
      )}
    </section>
  );
}

interface UnitProps {
  title: string;
  unit: Unit;
  /** its place */
  at: number;
  chosen: Chosen;
  onChosen: (chosen: Chosen) => void;
  viewed: ReadonlySet<string>;
  onViewed: (key: string) => void;
}

/** The changed files of a repository or folder; files that programs run by themselves come first. */
function UnitFiles({ title, unit, at: place, chosen, onChosen, viewed, onViewed }: UnitProps) {
  const words = text.work;
  const { files, files_count, commits } = unit;
  const listed = files.map((file, at) => ({ file, key: keyOf(place, at) }));
  const flagged = listed.filter(({ file }) => file.notable);
  const others = listed.filter(({ file }) => !file.notable);
  const listOf = (label: string, some: typeof listed) => (
    <ul class="plain changes" aria-label={label}>
      {some.map(({ file, key }) => (
        <WorkFile
          key={file.path}
          file={file}
          chosen={chosen.get(key)}
          isViewed={viewed.has(key)}
          onViewed={() => onViewed(key)}
          onFile={(isChosen) => onChosen(withFile(chosen, key, isChosen))}
          onPiece={(piece) => onChosen(withPiece(chosen, key, piece, file.hunks.length))}
        />
      ))}
    </ul>
  );
  return (
    <div>
      {title !== "" && <h3>{title}</h3>}
      {commits.length > 0 && (
        <details>
          <summary>{words.commits(commits.length)}</summary>
          <ul>
            {commits.map(({ id, subject, author }) => (
              <li key={id}>
                <code>{id.slice(0, 12)}</code> {subject} <span class="hint">{author}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
      {flagged.length > 0 && (
        <div class="flagged-files">
          <h3>{words.flagged}</h3>
          <p class="hint">{words.flaggedHint}</p>
          {listOf(words.flagged, flagged)}
        </div>
      )}
      {flagged.length > 0 && others.length > 0 && <h3>{words.others}</h3>}
      {others.length > 0 && listOf(words.files(title), others)}
      {files_count > files.length && <p class="hint">{words.more(files_count - files.length)}</p>}
    </div>
  );
}

/** Place of a taken part: a branch and the command that merges it, or the folder. */
function Taken({ taken: { branches, folder }, branch: first }: { taken: WorkTaken; branch: string }) {
  const words = text.work;
  const isOne = new Set(branches.map(({ repository }) => repository)).size === 1;
  return (
    <div role="status" class="taken">
      {branches.map(({ repository, dir, path, branch, commits }) => {
        const place = isOne ? path : dir;
        return (
          <div key={`${repository}/${path}`}>
            <p>
              {branch !== first && /-\d+$/.test(branch)
                ? words.beside(branch, first)
                : commits > 1
                ? words.onTop(branch, place)
                : words.onBranch(branch, place)}
            </p>
            <CommandLine command={`git merge ${branch}`} />
          </div>
        );
      })}
      {folder && <p>{words.inFolder(folder.written.length, folder.removed.length)}</p>}
      {folder?.conflicts.map((path) => <p key={path} class="warning">{words.conflict(path)}</p>)}
    </div>
  );
}
