import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { act } from "../store/act.ts";

/** What `read` answers: absent until it does; read again when `keys` change, or by `reload`. */
export function useLoaded<T>(read: () => Promise<T>, keys: unknown[] = []): {
  value: Signal<T | undefined>;
  reload: () => Promise<boolean>;
} {
  const value = useSignal<T | undefined>(undefined);
  const reload = () => act(async () => value.value = await read());
  useEffect(() => void reload(), keys);
  return { value, reload };
}
