/** Types of the one function that is used of @cdktf/hcl2json, whose own types bring those of a browser. */
export function parse(name: string, text: string): Promise<Record<string, unknown>>;
