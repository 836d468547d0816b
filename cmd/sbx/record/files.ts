import { familyCommand } from "./across.ts";

export const command = familyCommand("files", "file", "the uses of files");
