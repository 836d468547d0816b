import { useSignal } from "@preact/signals";
import { api, type RuleView } from "../../api/routes.ts";
import { CommandLine } from "../../part/command.tsx";
import { useLoaded } from "../../part/load.ts";
import { ProfileChoice, useProfile } from "../../part/profile_choice.tsx";
import { text } from "../../text/en.ts";
import { Changes } from "./changes.tsx";
import { Comparison } from "./compare/view.tsx";
import { RuleEditor } from "./editor.tsx";
import { Outdated } from "./outdated.tsx";
import { RemarkList } from "./remarks.tsx";
import { RuleTable } from "./table.tsx";
import { Simulator } from "./simulator.tsx";

/** The rules of a profile with those of corp and the defaults, in the order in which they decide. */
export function RulesPage() {
  const profile = useProfile();
  const profiles = useLoaded(api.profiles);
  const { value, reload } = useLoaded(() => api.rules(profile.value), [profile.value]);
  /** `new`: a rule that is not there yet */
  const open = useSignal<RuleView | "new" | undefined>(undefined);
  const words = text.rules;
  const isBuiltin = profiles.value.value?.profiles.find(({ id }) => id === profile.value)?.source !== "user";
  return (
    <>
      <div class="head">
        <h1>{text.page.rules}</h1>
        <ProfileChoice chosen={profile} />
        {!isBuiltin && (
          <button type="button" class="main" onClick={() => open.value = "new"}>{words.add}</button>
        )}
      </div>
      {isBuiltin && profiles.value.value && (
        <>
          <p class="hint">{words.builtin}</p>
          <CommandLine command={words.copy(profile.value)} />
        </>
      )}
      {value.value && <Outdated vms={value.value.vms} onReloaded={reload} />}
      <RemarkList
        remarks={value.value?.lints.map(({ rule_id, severity, message }) => ({
          severity,
          message: `${rule_id}: ${message}`,
        }))}
      />
      {open.value && (
        <RuleEditor
          profile={profile.value}
          {...(open.value === "new" ? { title: words.editor.fresh, subject: {} } : shownOf(open.value))}
          lock={open.value === "new" ? undefined : lockOf(isBuiltin, open.value)}
          onSaved={reload}
          onClose={() => open.value = undefined}
        />
      )}
      <RuleTable
        rules={value.value?.rules ?? []}
        isBuiltin={isBuiltin}
        onOpen={(rule) => open.value = rule}
      />
      <Changes profile={profile.value} rules={value.value} onUndone={reload} />
      <Comparison key={profile.value} profile={profile.value} />
      <Simulator profile={profile.value} />
    </>
  );
}

/** Who else owns a rule. */
function lockOf(isBuiltin: boolean, { layer }: RuleView) {
  if (layer !== "profile") return layer;
  return isBuiltin ? "builtin" : undefined;
}

/** A rule in force, for the editor; a name that is its id was not written. */
function shownOf({ id, name, ...rule }: RuleView) {
  const subject = { rule_id: id, rule: { ...rule, name: name === id ? undefined : name } };
  return { title: text.rules.editor.title(id), subject, isSaved: true };
}
