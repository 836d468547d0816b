import { familyCommand } from "./across.ts";

export const command = familyCommand("models", "model", "the calls of models");
