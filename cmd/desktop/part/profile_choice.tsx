import { type Signal, useSignal } from "@preact/signals";
import { api } from "../api/routes.ts";
import { vms } from "../store/store.ts";
import { text } from "../text/en.ts";
import { useLoaded } from "./load.ts";

/** A chosen profile: at first the one of the first VM. */
export function useProfile(): Signal<string> {
  return useSignal(vms.value[0]?.profile_id ?? "code");
}

/** Chooses one of the profiles. */
export function ProfileChoice({ chosen }: { chosen: Signal<string> }) {
  const profiles = useLoaded(api.profiles).value.value?.profiles ?? [];
  return (
    <label>
      {text.create.profile}{" "}
      <select value={chosen.value} onChange={({ currentTarget }) => chosen.value = currentTarget.value}>
        {profiles.map(({ id, name }) => <option key={id} value={id}>{name}</option>)}
      </select>
    </label>
  );
}
