import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { formatBytes } from "../../../../lib/base/progress/mod.ts";
import { hrefOf, useAddressed } from "../../app/route.ts";
import { api, type Image } from "../../api/routes.ts";
import { CommandLine, ConfirmButton, ConfirmDialog, saveFile, Table } from "../../part/common.tsx";
import { Icon } from "../../part/icon.tsx";
import { Menu } from "../../part/menu.tsx";
import { TaskCard } from "../../part/task.tsx";
import { When } from "../../part/time.tsx";
import { act, useLoaded } from "../../store/store.ts";
import { begin, tasks, useTasks } from "../../store/tasks.ts";
import { FilterField } from "../../part/search.tsx";
import { Segments } from "../../part/segments.tsx";
import { text } from "../../text/en.ts";

/** Stands for files that a profile names itself. */
const PINNED = "pinned";

/** True for the profile whose image it is; others may share it. */
const isOwn = ({ image, profile_id }: Image) => image === profile_id;

const SHOWS = ["all", "built", "missing"] as const;

/** Images of profiles and of registries: sizes, bases, ages, their packages and their users. */
export function ImagesPage() {
  useTasks();
  const ended = tasks.value?.filter(({ kind, ended_at }) => kind === "image" && ended_at).length ?? 0;
  const images = useLoaded(api.images);
  useEffect(() => void (ended > 0 && images.reload()), [ended]);
  const [sought, show] = [useAddressed("q"), useAddressed("show")];
  const words = text.images;
  const all = images.value.value?.images.toSorted((a, b) =>
    Number(a.problem !== undefined) - Number(b.problem !== undefined) ||
    (a.profile_id < b.profile_id ? -1 : 1)
  );
  const wanted = (sought.value ?? "").toLowerCase();
  const shown = all?.filter(({ profile_id, name = "", problem }) =>
    `${profile_id} ${name}`.toLowerCase().includes(wanted) &&
    (show.value !== "built" || problem === undefined) && (show.value !== "missing" || problem !== undefined)
  );
  const own = all?.filter((image) => isOwn(image) || image.image === PINNED) ?? [];
  const bytes = own.reduce((sum, { total_bytes = 0 }) => sum + total_bytes, 0);
  return (
    <>
      <div class="head">
        <h1>{text.page.images}</h1>
        <ConfirmButton
          label={words.clean}
          question={words.cleanTitle}
          loss={words.cleanLoss}
          onConfirm={clean}
        />
      </div>
      <p class="lead">{words.about}</p>
      <Builds />
      <div class="filters">
        <FilterField
          label={words.find}
          value={sought.value ?? ""}
          onFilter={(typed) => sought.value = typed || undefined}
        />
        <Segments
          label={words.show}
          choices={SHOWS}
          chosen={show.value ?? "all"}
          textOf={(each) => words.shows[each]}
          onChoose={(each) => show.value = each === "all" ? undefined : each}
        />
        {all && <span class="hint">{words.total(own.length, formatBytes(bytes))}</span>}
      </div>
      {shown === undefined ? <p role="status">{text.common.loading}</p> : (
        <Table
          label={words.table}
          head={[words.profile, words.base, words.age, { number: words.size }, words.usedBy, words.actions]}
        >
          {shown.map((image) => (
            <ImageRow key={image.profile_id} image={image} all={all ?? []} onChange={images.reload} />
          ))}
        </Table>
      )}
      {shown?.length === 0 && <p class="empty">{words.nothing}</p>}
      <Environments />
    </>
  );

  async function clean() {
    let freed = 0;
    const isDone = await act(async () => {
      freed = (await api.pruneImages()).bytes + (await api.collectEnvironments()).bytes;
    });
    if (isDone) await act(images.reload, words.cleaned(formatBytes(freed)));
  }
}

/** Builds that run, failed or were cancelled; one that succeeded is a row of the table. */
function Builds() {
  const builds = tasks.value?.filter(({ kind, state }) => kind === "image" && state !== "done") ?? [];
  return (
    <>
      {builds.map((task) => (
        <TaskCard
          key={task.id}
          task={task}
          title={text.images.building(task.subject)}
          onAgain={() => build(task.subject)}
        />
      ))}
    </>
  );
}

function build(profile: string): Promise<boolean> {
  return act(() => begin(() => api.buildImage(profile)));
}

function ImageRow({ image, all, onChange }: { image: Image; all: Image[]; onChange: () => void }) {
  const isAsking = useSignal(false);
  const words = text.images;
  const {
    profile_id,
    name,
    problem,
    version,
    suite,
    packages = [],
    total_bytes,
    installed_at,
    obom,
    used_by,
  } = image;
  const [isBuiltHere, isPinned] = [isOwn(image), image.image === PINNED];
  const isBuilding = tasks.value?.some(({ kind, subject, state }) =>
    kind === "image" && subject === profile_id && state === "running"
  );
  const save = () =>
    act(async () => saveFile(`${profile_id}.cdx.json`, await (await api.obom(profile_id)).blob()));
  const items = [
    ...obom ? [{ label: words.obom, onChoose: save }] : [],
    ...isBuiltHere ? [{ label: words.rebuild, onChoose: () => build(profile_id) }] : [],
    ...isBuiltHere ? [{ label: words.remove, isDanger: true, onChoose: () => isAsking.value = true }] : [],
  ];
  return (
    <tr>
      <th scope="row">
        {name ?? profile_id}
        <p class="hint">{profile_id}</p>
      </th>
      {problem !== undefined
        ? (
          <td colSpan={3} title={problem}>
            <span class="pill">{words.missing}</span>
          </td>
        )
        : (
          <>
            <td title={packages.join(", ") || undefined}>
              {isPinned ? words.pinned : words.suite(suite)}
              <p class="hint">
                {isBuiltHere ? words.packages(packages.length) : !isPinned && words.sharedWith(image.image!)}
              </p>
            </td>
            <td title={words.version(version!)}>
              {installed_at ? <When at={installed_at} /> : text.common.none}
            </td>
            <td class="number">
              {isBuiltHere || isPinned ? formatBytes(total_bytes ?? 0) : text.common.none}
            </td>
          </>
        )}
      <td>
        {used_by.length === 0 ? text.common.none : used_by.map((vm, at) => (
          <span key={vm}>
            {at > 0 && ", "}
            <a href={hrefOf("vm", vm)}>{vm}</a>
          </span>
        ))}
      </td>
      <td class="actions">
        {problem !== undefined && (
          <button
            type="button"
            aria-label={words.buildOf(profile_id)}
            disabled={isBuilding}
            onClick={() => build(profile_id)}
          >
            {words.build}
          </button>
        )}
        <Menu label={words.moreFor(profile_id)} items={items} isDisabled={isBuilding}>
          <Icon name="more" />
        </Menu>
        {isAsking.value && (
          <RemoveDialog
            image={image}
            all={all}
            onClose={() => isAsking.value = false}
            onRemoved={onChange}
          />
        )}
      </td>
    </tr>
  );
}

/** Says who boots the image before it goes. */
function RemoveDialog(
  { image: { profile_id, total_bytes = 0 }, all, onClose, onRemoved }: {
    image: Image;
    all: Image[];
    onClose: () => void;
    onRemoved: () => void;
  },
) {
  const words = text.images;
  const sharers = all.filter(({ image }) => image === profile_id);
  const vms = sharers.flatMap(({ used_by }) => used_by);
  const remove = async () => {
    onClose();
    await act(() => api.removeImage(profile_id), words.removed(profile_id));
    onRemoved();
  };
  return (
    <ConfirmDialog
      title={words.removeTitle(profile_id)}
      label={words.remove}
      onClose={onClose}
      onConfirm={remove}
    >
      <ul>
        <li>{words.removeFrees(formatBytes(total_bytes))}</li>
        <li>{words.removeProfiles(sharers.map((each) => each.profile_id).join(", "))}</li>
        <li>{vms.length === 0 ? words.removeUnused : words.removeVms(vms.join(", "))}</li>
      </ul>
    </ConfirmDialog>
  );
}

/** Characters of a digest that people compare. */
const DIGEST_SHOWN = "sha256:".length + 12;

/** OCI images of this home. */
function Environments() {
  const found = useLoaded(api.environments);
  const words = text.images;
  const all = found.value.value?.environments;
  const remove = async (name: string) => {
    await act(() => api.removeEnvironment(name), words.removed(name));
    await found.reload();
  };
  return (
    <section aria-labelledby="oci">
      <h2 id="oci">{words.oci}</h2>
      <p class="hint">{words.ociAbout}</p>
      {all?.length === 0 && (
        <>
          <p>{words.ociEmpty}</p>
          <CommandLine command={words.pullCommand} />
        </>
      )}
      {all && all.length > 0 && (
        <>
          <Table
            label={words.oci}
            head={[
              words.image,
              words.arch,
              words.pulled,
              { number: words.size },
              words.usedBy,
              words.actions,
            ]}
          >
            {all.map(
              ({ key, references, digest, arch, created_at, bytes, used_by, profiles, signatures }) => {
                const name = references[0] ?? key;
                return (
                  <tr key={key}>
                    <th scope="row">
                      {name}
                      <p class="hint">
                        <code title={digest}>{digest.slice(0, DIGEST_SHOWN)}</code>
                        {signatures && ` · ${words.signed(signatures.length)}`}
                      </p>
                    </th>
                    <td>{arch}</td>
                    <td>
                      <When at={created_at} />
                    </td>
                    <td class="number">{formatBytes(bytes)}</td>
                    <td>{[...used_by, ...profiles].join(", ") || text.common.none}</td>
                    <td class="actions">
                      {used_by.length === 0 && (
                        <ConfirmButton
                          label={words.remove}
                          question={words.removeImage(name)}
                          loss={words.removeImageLoss}
                          onConfirm={() => remove(references[0] ?? key)}
                        />
                      )}
                    </td>
                  </tr>
                );
              },
            )}
          </Table>
          <p class="hint">{words.layers(formatBytes(found.value.value!.layer_bytes))}</p>
        </>
      )}
    </section>
  );
}
