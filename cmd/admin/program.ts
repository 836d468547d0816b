/** Name of the program in help and errors. */
export const PROGRAM = "sbx-admin";
