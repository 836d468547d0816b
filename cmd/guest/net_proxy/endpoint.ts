/** One end of a connection. */
export interface Endpoint {
  hostname: string;
  port: number;
}
