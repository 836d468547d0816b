import type { RuleChangeView, RuleList } from "../../api/routes.ts";
import { api } from "../../api/routes.ts";
import { ChangeTable } from "../../part/change_table.tsx";
import { useLoaded } from "../../part/load.ts";
import { text } from "../../text/en.ts";

interface Props {
  profile: string;
  /** the rules of now: read again after they change */
  rules: RuleList | undefined;
  onUndone: () => void;
}

/** The recorded changes of a profile's rules, each of which can be undone. */
export function Changes({ profile, rules, onUndone }: Props) {
  const { value } = useLoaded(() => api.changes(profile), [profile, rules]);
  const words = text.rules.changes;
  const list = (value.value?.changes ?? []).filter((change) => change.kind === "rule");
  return (
    <section aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{words.about}</p>
      {list.length === 0 ? <p class="hint">{words.none}</p> : (
        <ChangeTable
          label={words.table}
          head={text.rules.rule}
          changes={list}
          idOf={({ rule_id }) => rule_id}
          draw={(rule) => <Rule rule={rule} />}
          onUndone={onUndone}
        />
      )}
    </section>
  );
}

function Rule({ rule }: { rule: RuleChangeView["after"] }) {
  if (!rule) return <>{text.rules.changes.absent}</>;
  const { action, match, enabled: _, ...rest } = rule;
  const more = Object.entries(rest).filter(([, value]) => value !== undefined);
  return (
    <>
      {action} <code>{match}</code>
      {more.length > 0 && <p class="hint">{JSON.stringify(Object.fromEntries(more))}</p>}
    </>
  );
}
