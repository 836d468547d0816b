/** Texts of requests and responses. */
export const http = {
  request: "Request",
  response: "Response",
  headersOf: (message: string) => `Headers of the ${message.toLowerCase()}`,
  bodyOf: (message: string) => `Body of the ${message.toLowerCase()}`,
  noBody: "No body.",
  state: {
    text: (size: number) => `A text of ${size} bytes, which is not recorded.`,
    binary: (size: number) => `Not text: ${size} bytes.`,
    redacted: (size: number) => `Left out of the record: ${size} bytes.`,
  },
  cut: "Not all of it is shown.",
};
