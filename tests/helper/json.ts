/** JSON of another program as `JSON.parse` types it: a test asserts its shape by what it reads of it. */
export type Parsed = ReturnType<typeof JSON.parse>;
