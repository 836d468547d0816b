/** What the inputs of several tools have in common. */
import { z } from "zod";

/** The VM that a tool is about. */
export const vm = z.string().min(1).max(128).describe("name or id of the VM; `list` shows those that exist");
