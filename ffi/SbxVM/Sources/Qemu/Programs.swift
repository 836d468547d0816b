import Foundation

/// QEMU and the programs that serve its vsock and its shared folder: when one ends, all do.
final class Programs: Sendable {
  private struct Running {
    var children: [Child] = []
    var qemu: Child?
    var isOver = false
  }

  /// A program beside QEMU, whose end is the machine's while it is needed.
  final class Service: Sendable {
    fileprivate let isNeeded = Locked(true)
    fileprivate let child = Locked<Child?>(nil)

    func expectEnd() {
      isNeeded.with { $0 = false }
    }

    func end() {
      expectEnd()
      child.with { $0 }?.send(SIGKILL)
    }
  }

  private let running = Locked(Running())
  private let ended: @Sendable (End) -> Void

  /// - Parameter ended: called once, with QEMU's end if it was started
  init(ended: @escaping @Sendable (End) -> Void) {
    self.ended = ended
  }

  /// A program other than QEMU. - Returns: nothing if it does not listen on its socket
  func serve(_ program: String, _ arguments: [String], socket: String, log: String) -> Service? {
    let service = Service()
    let child = start(program, arguments, input: nil, log: log) { _ in
      if service.isNeeded.with({ $0 }) { self.kill() }
    }
    guard let child else { return nil }
    service.child.with { $0 = child }
    return listens(socket) ? service : nil
  }

  func qemu(_ arguments: [String], console: Int32, socket: String, log: String) -> Bool {
    let program = "/usr/bin/qemu-system-x86_64"
    let child = start(program, arguments, input: console, log: log) { end in
      self.kill()
      self.ended(end)
    }
    guard let child else {
      ended(End(code: 1))
      return false
    }
    running.with { $0.qemu = child }
    return listens(socket)
  }

  func kill() {
    let children = running.with { running in
      running.isOver = true
      return running.children
    }
    children.forEach { $0.send(SIGKILL) }
  }

  /// Signals QEMU. - Returns: false if it has ended
  func send(_ signal: Int32) -> Bool {
    running.with { $0.qemu }?.send(signal) ?? false
  }

  private func start(
    _ program: String, _ arguments: [String], input: Int32?, log: String, ended: @escaping @Sendable (End) -> Void
  ) -> Child? {
    guard !running.with({ $0.isOver }) else { return nil }
    let child = Child(program, arguments, input: input, log: log, ended: ended)
    let isOver = running.with { running in
      running.children.append(child)
      return running.isOver
    }
    if isOver { child.send(SIGKILL) }
    return child
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
