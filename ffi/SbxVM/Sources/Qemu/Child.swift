import Foundation

/// A program that ends with this process, and a thread that waits for its end.
final class Child: Sendable {
  private let pid = Locked<pid_t?>(nil)

  /// - Parameters:
  ///   - input: descriptor of its standard input and output; without one both are /dev/null
  ///   - ended: called once, on a thread of its own; also where it could not be started
  init(_ program: String, _ arguments: [String], input: Int32?, log: String, ended: @escaping @Sendable (End) -> Void) {
    // The kernel ends a child with the thread that started it: that thread waits for the child.
    let ready = DispatchSemaphore(value: 0)
    Thread.detachNewThread { [pid] in
      let started = Child.spawn(
        ["/usr/bin/setpriv", "--no-new-privs", "--pdeathsig", "KILL", "--", program] + arguments, input: input, log: log)
      pid.with { $0 = started }
      ready.signal()
      guard let started else { return ended(End(code: 127, message: "\(program) could not be started")) }
      var status: Int32 = 0
      while waitid(P_PID, id_t(started), nil, WEXITED | WNOWAIT) < 0, errno == EINTR {}
      // Not killed between its end and the number's next use.
      pid.with { pid in
        waitpid(started, &status, 0)
        pid = nil
      }
      let signal = status & 0x7f
      ended(signal == 0 ? End(code: (status >> 8) & 0xff) : End(code: 128 + signal, signal: Child.name(of: signal)))
    }
    ready.wait()
  }

  /// - Returns: false if it has ended
  @discardableResult
  func send(_ signal: Int32) -> Bool {
    pid.with { pid in
      guard let pid else { return false }
      return Foundation.kill(pid, signal) == 0
    }
  }

  private static func name(of signal: Int32) -> String {
    let names = [SIGKILL: "SIGKILL", SIGTERM: "SIGTERM", SIGABRT: "SIGABRT", SIGSEGV: "SIGSEGV", SIGBUS: "SIGBUS"]
    return names[signal] ?? "signal \(signal)"
  }

  private static func spawn(_ command: [String], input: Int32?, log: String) -> pid_t? {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    if let input {
      posix_spawn_file_actions_adddup2(&actions, input, 0)
      posix_spawn_file_actions_adddup2(&actions, input, 1)
    } else {
      posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
      posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
    }
    posix_spawn_file_actions_addopen(&actions, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    var arguments: [UnsafeMutablePointer<CChar>?] = command.map { strdup($0) } + [nil]
    defer { arguments.forEach { free($0) } }
    var pid: pid_t = 0
    // No variables: paths are absolute.
    var variables: [UnsafeMutablePointer<CChar>?] = [nil]
    return posix_spawn(&pid, command[0], &actions, nil, &arguments, &variables) == 0 ? pid : nil
  }
}
