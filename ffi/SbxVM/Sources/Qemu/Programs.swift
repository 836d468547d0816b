import Foundation

/// QEMU and the programs that serve its vsock and its shared folder: when one ends, all do.
final class Programs: Sendable {
  private struct Running {
    var children: [Child] = []
    var isOver = false
  }

  private let running = Locked(Running())
  private let ended: @Sendable (End) -> Void

  /// - Parameter ended: called once, with QEMU's end if it was started
  init(ended: @escaping @Sendable (End) -> Void) {
    self.ended = ended
  }

  /// A program other than QEMU. - Returns: whether it listens on its socket
  func serve(_ program: String, _ arguments: [String], socket: String, log: String) -> Bool {
    guard start(program, arguments, input: nil, log: log, ended: { _ in self.kill() }) else { return false }
    return listens(socket)
  }

  func qemu(_ arguments: [String], console: Int32, socket: String, log: String) -> Bool {
    let program = "/usr/bin/qemu-system-x86_64"
    let isStarted = start(program, arguments, input: console, log: log) { end in
      self.kill()
      self.ended(end)
    }
    guard isStarted else {
      ended(End(code: 1))
      return false
    }
    return listens(socket)
  }

  func kill() {
    let children = running.with { running in
      running.isOver = true
      return running.children
    }
    children.forEach { $0.send(SIGKILL) }
  }

  func send(_ signal: Int32) -> Bool {
    running.with { $0.children.last }?.send(signal) ?? false
  }

  private func start(
    _ program: String, _ arguments: [String], input: Int32?, log: String, ended: @escaping @Sendable (End) -> Void
  ) -> Bool {
    guard !running.with({ $0.isOver }) else { return false }
    let child = Child(program, arguments, input: input, log: log, ended: ended)
    let isOver = running.with { running in
      running.children.append(child)
      return running.isOver
    }
    if isOver { child.send(SIGKILL) }
    return true
  }

  /// Waits until somebody accepts connections there. Each helper serves its first connection only, so none is tried.
  private func listens(_ socket: String) -> Bool {
    while !running.with({ $0.isOver }) {
      // Read in parts: files of /proc have no size.
      let sockets = FileHandle(forReadingAtPath: "/proc/net/unix")?.readDataToEndOfFile() ?? Data()
      let listens = String(decoding: sockets, as: UTF8.self).split(separator: "\n").contains {
        $0.hasSuffix(" \(socket)") && $0.contains(" 00010000 ")
      }
      if listens { return true }
      usleep(2000)
    }
    return false
  }
}
