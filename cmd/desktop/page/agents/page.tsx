import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { hrefOf, useAddressed } from "../../app/route.ts";
import { type Agent, api } from "../../api/routes.ts";
import { Table } from "../../part/common.tsx";
import { Icon } from "../../part/icon.tsx";
import { TaskCard } from "../../part/task.tsx";
import { When } from "../../part/time.tsx";
import { useLoaded, vms } from "../../store/store.ts";
import { tasks, useTasks } from "../../store/tasks.ts";
import { text } from "../../text/en.ts";
import { CreateDialog } from "../sessions/create.tsx";
import { VmState } from "../vm/state.tsx";
import { keysFor } from "./keys.ts";
import { StartForm } from "./start.tsx";

/** Agents to start on a folder, their starts under way, and the VMs in which they work. */
export function AgentsPage() {
  useTasks();
  const agents = useLoaded(api.agents);
  const credentials = useLoaded(api.credentials);
  const chosen = useAddressed("agent");
  const isCreating = useSignal(false);
  const words = text.agents;
  const ended = tasks.value?.filter(({ ended_at }) => ended_at).length ?? 0;
  // A build that has ended may have made an image.
  useEffect(() => void (ended > 0 && agents.reload()), [ended]);
  const keys = credentials.value.value?.credentials;
  const hasKey = (agent: Agent) => keys === undefined || keysFor(agent, keys).length > 0;
  // Agents that start at once come first.
  const lacks = (agent: Agent) => Number(agent.version === undefined) + Number(!hasKey(agent));
  const all = agents.value.value?.agents.toSorted((a, b) =>
    lacks(a) - lacks(b) || a.name.localeCompare(b.name) || (a.id < b.id ? -1 : 1)
  );
  const agent = all?.find(({ id }) => id === chosen.value);
  const starts = tasks.value?.filter(({ kind, state }) => kind === "agent" && state !== "done") ?? [];
  return (
    <>
      <div class="head">
        <h1>{text.page.agents}</h1>
      </div>
      <p class="lead">{words.about}</p>
      {starts.map((task) => (
        <TaskCard key={task.id} task={task} title={words.starting(nameOf(all, task.subject))} />
      ))}
      {all === undefined
        ? <p role="status">{text.common.loading}</p>
        : (
          <div class="agent-tiles" role="group" aria-label={words.choose}>
            {all.map((each) => (
              <AgentTile
                key={each.id}
                agent={each}
                hasKey={hasKey(each)}
                isChosen={each.id === chosen.value}
                onChoose={() => chosen.value = each.id}
              />
            ))}
            <button type="button" class="agent-tile" onClick={() => isCreating.value = true}>
              <Icon name="vm" size={20} />
              <strong>{words.empty}</strong>
              <span class="hint">{words.emptyAbout}</span>
            </button>
          </div>
        )}
      {isCreating.value && <CreateDialog onClose={() => isCreating.value = false} />}
      {agent && (
        <StartForm
          key={agent.id}
          agent={agent}
          credentials={keys}
          onKeys={credentials.reload}
        />
      )}
      <AtWork agents={all} />
    </>
  );
}

/** The name of an agent for a person; two with one name are told apart by their ids. */
function nameOf(all: Agent[] | undefined, id: string): string {
  return all?.find((each) => each.id === id)?.name ?? id;
}

function AgentTile(
  { agent, hasKey, isChosen, onChoose }: {
    agent: Agent;
    hasKey: boolean;
    isChosen: boolean;
    onChoose: () => void;
  },
) {
  const words = text.agents;
  const { id, name, version, source } = agent;
  return (
    <button type="button" class="agent-tile" aria-pressed={isChosen} onClick={onChoose}>
      <Icon name="agent" size={20} />
      <strong>{name}</strong>
      <span class="hint">{source === "user" ? `${id} · ${words.own}` : id}</span>
      <span class="agent-pills">
        {version === undefined
          ? <span class="pill">{words.noImage}</span>
          : <span class="pill allow">{words.hasImage}</span>}
        {!hasKey && <span class="pill ask">{words.noKey}</span>}
      </span>
    </button>
  );
}

/** VMs that an agent has. */
function AtWork({ agents }: { agents: Agent[] | undefined }) {
  const words = text.agents;
  const shown = vms.value.filter(({ agent }) => agent !== undefined);
  return (
    <section aria-labelledby="at-work">
      <h2 id="at-work">{words.working}</h2>
      {shown.length === 0
        ? <p class="empty">{words.noVm}</p>
        : (
          <Table label={words.working} head={[words.vm, words.agent, words.state, words.active, words.views]}>
            {shown.map((vm) => (
              <tr key={vm.id}>
                <th scope="row">
                  <a href={hrefOf("vm", vm.name)}>{vm.name}</a>
                  {vm.folder && <p class="hint">{vm.folder.dir}</p>}
                </th>
                <td>{nameOf(agents, vm.agent!)}</td>
                <td>
                  <VmState vm={vm} />
                </td>
                <td>{vm.active_at ? <When at={vm.active_at} /> : text.common.none}</td>
                <td>
                  <a
                    href={hrefOf("vm", vm.name, "terminal")}
                    aria-label={words.viewOf(words.terminal, vm.name)}
                  >
                    {words.terminal}
                  </a>{" "}
                  <a href={hrefOf("vm", vm.name, "changes")} aria-label={words.viewOf(words.work, vm.name)}>
                    {words.work}
                  </a>
                </td>
              </tr>
            ))}
          </Table>
        )}
    </section>
  );
}
