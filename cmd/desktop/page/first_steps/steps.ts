/** The steps from a new home to a working agent, and which are done, as far as the service knows. */
import type { SystemStatus } from "../../../../lib/client/api/schema.ts";

/** In the order in which they work: without an image nothing says whether this machine can run VMs. */
export const STEPS = ["image", "machine", "credential", "agent"] as const;
export type StepName = typeof STEPS[number];

/** `next`: the first that is not done. */
export interface Step {
  name: StepName;
  state: "done" | "next" | "later";
  /** the reason it is not done, or a detail of its state */
  note?: string;
}

/** Parts of the status that the steps depend on. */
export type StepFacts = Pick<SystemStatus, "hypervisor" | "assets" | "setup">;

export function stepsOf({ hypervisor, assets, setup }: StepFacts): Step[] {
  const { completed_steps } = setup;
  const isReady = assets.some(({ ready }) => ready);
  const lack = assets.find(({ ready }) => !ready)?.missing[0];
  const done: Record<StepName, boolean> = {
    machine: hypervisor.accelerator !== "unknown",
    image: isReady,
    credential: completed_steps.includes("providers"),
    agent: completed_steps.includes("agent"),
  };
  const notes: Partial<Record<StepName, string>> = {
    machine: `${hypervisor.name}, ${hypervisor.accelerator}: ${hypervisor.reason}`,
    ...!isReady && { image: lack },
  };
  const next = STEPS.find((name) => !done[name]);
  return STEPS.map((name) => ({
    name,
    state: done[name] ? "done" : name === next ? "next" : "later",
    note: notes[name],
  }));
}

export function doneOf(steps: Step[]): number {
  return steps.filter(({ state }) => state === "done").length;
}
