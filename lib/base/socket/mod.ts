/** An HTTP server at a Unix socket, which takes no other server's place. */
import { removeIfThere } from "../home/mod.ts";

/**
 * An HTTP server at a Unix socket, until {@linkcode UnixServer.close}.
 *
 * At its end the runtime removes the path that a server was bound to, even if another server is bound there
 * by then: a service of a home that was removed and made again would remove its successor's socket. So the
 * socket is bound to another name, then renamed; that also replaces a stale one without a moment in between.
 */
export class UnixServer {
  readonly #path: string;
  readonly #inode: number | null;
  readonly #server: Deno.HttpServer;

  private constructor(path: string, server: Deno.HttpServer) {
    this.#path = path;
    this.#server = server;
    this.#inode = inodeOf(path);
  }

  static open(path: string, handler: Deno.ServeHandler, onReady: () => void = () => {}): UnixServer {
    const bound = `${path}~`;
    removeIfThere(bound);
    const server = Deno.serve({ path: bound, onListen: () => {} }, handler);
    Deno.renameSync(bound, path);
    const socket = new UnixServer(path, server);
    onReady();
    return socket;
  }

  get finished(): Promise<void> {
    return this.#server.finished;
  }

  /**
   * Ends after the requests that are under way, and removes the socket unless another one is in its place.
   */
  async close(): Promise<void> {
    if (inodeOf(this.#path) === this.#inode) removeIfThere(this.#path);
    await this.#server.shutdown();
  }
}

function inodeOf(path: string): number | null {
  try {
    return Deno.statSync(path).ino;
  } catch {
    return null;
  }
}
