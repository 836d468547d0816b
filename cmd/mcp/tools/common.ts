/** Inputs shared by several tools. */
import { z } from "zod";

export const vm = z.string().min(1).max(128).describe("name or id of the VM; `list` shows them");
