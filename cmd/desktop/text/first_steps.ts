/** Texts of the first steps; their commands are the CLI's. */
const credentials: "credentials" | undefined = "credentials";
const none: undefined = undefined;

export const firstSteps = {
  title: "First steps",
  progress: (done: number, all: number) => done === all ? "All done." : `${done} of ${all} done`,
  state: { done: "done", next: "next", later: "" },
  here: { credentials: "Or add it here" },
  steps: {
    machine: {
      what: "This machine can run VMs",
      why: "sbx doctor says what is missing, and the command that installs it.",
      command: "sbx doctor",
      page: none,
    },
    image: {
      what: "Get the image that VMs boot",
      why: "It is downloaded once, checked against its signed manifest, and used by all VMs.",
      command: "sbx update",
      page: none,
    },
    credential: {
      what: "Give sbx a key to broker",
      why: "Agents get a reference in its place; the key stays on this machine.",
      command: "sbx credentials add anthropic",
      page: credentials,
    },
    agent: {
      what: "Start an agent on a folder",
      why: "In a folder of yours: the agent works on a copy in a VM, and sbx pull takes its work back.",
      command: "sbx agent claude .",
      page: none,
    },
  },
};
