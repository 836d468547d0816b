import Dispatch
import Foundation

/// A machine of QEMU.
final class QemuGuest: Guest {
  private let spec: Spec
  private let console: Int32
  private let queue: DispatchQueue
  private let reports: Reports
  private let programs: Programs
  private let arguments: Arguments
  private let vsock: VsockDevice
  private var listeners: [any DispatchSourceRead] = []
  private var hasStarted = false
  /// As the framework's, it does not end between two states.
  private let isBetween = Locked(false)

  init(_ spec: Spec, console: Int32, queue: DispatchQueue, reports: Reports) {
    self.spec = spec
    self.console = console
    self.queue = queue
    self.reports = reports
    arguments = Arguments(spec: spec, folder: "\(spec.dir)/q")
    programs = Programs(ended: reports.ended)
    vsock = VsockDevice(arguments, programs)
  }

  deinit {
    listeners.forEach { $0.cancel() }
    UnixSocket.close(console)
  }

  func start(_ done: @escaping Done) {
    let done = between(done)
    boot(with: arguments.qemu(), vsock: true, done) { _ throws(Failure) in }
  }

  func restore(from folder: String, _ done: @escaping Done) {
    let done = between(done)
    let state = "\(folder)/state"
    guard FileManager.default.isReadableFile(atPath: state) else {
      return done(Failure(.image, "\(state) is missing"))
    }
    boot(with: arguments.qemu(state: state) + ["-S"], vsock: false, done) { qmp throws(Failure) in
      do {
        _ = try qmp.wait("query-status", for: ["prelaunch", "paused"])
      } catch {
        throw Failure(.image, "QEMU does not take the state of \(folder)")
      }
    }
  }

  func stop(_ done: @escaping Done) {
    guard !isBetween.with({ $0 }) else { return done(nil) }
    programs.kill()
    if !hasStarted { reports.ended(End()) }
    done(nil)
  }

  private func between(_ done: @escaping Done) -> Done {
    isBetween.with { $0 = true }
    return { [isBetween] failure in
      isBetween.with { $0 = false }
      done(failure)
    }
  }

  /// QEMU's own `stop` would stop the rings that it shares with vhost-device-vsock, which ends by that.
  func pause(_ done: @escaping Done) {
    let done = between(done)
    done(programs.send(SIGSTOP) ? nil : Failure(.ended, "QEMU has ended"))
  }

  func resume(_ done: @escaping Done) {
    let done = between(done)
    _ = programs.send(SIGCONT)
    command(done) { [vsock] qmp throws(Failure) in
      try vsock.plug(qmp)
      try qmp.execute("cont")
    }
  }

  func save(to folder: String, _ done: @escaping Done) {
    let done = between(done)
    _ = programs.send(SIGCONT)
    command(done) { [vsock] qmp throws(Failure) in
      // The machine goes on until its kernel has let go of it.
      try vsock.unplug(qmp)
      try qmp.execute("stop")
      try qmp.execute("migrate-set-parameters", ["max-bandwidth": 1_000_000_000_000])
      try qmp.execute("migrate", ["uri": "file:\(folder)/state"])
      let status = try qmp.wait("query-migrate", for: ["completed", "failed", "cancelled"])
      guard status == "completed" else { throw Failure(.hypervisor, "QEMU could not save the machine: \(status)") }
    }
  }

  /// The guest's connections come to Unix sockets of vhost-device-vsock, as descriptors come from the framework.
  func listen(port: UInt32) throws(Failure) {
    let path = "\(arguments.folder)/v_\(port)"
    guard !FileManager.default.fileExists(atPath: path) else { return }
    let descriptor = try UnixSocket.listen(at: path)
    UnixSocket.makeNonBlocking(descriptor)
    let listener = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
    let connected = reports.connected
    listener.setEventHandler {
      while let connection = UnixSocket.accept(descriptor) { connected(port, connection) }
    }
    listener.setCancelHandler { UnixSocket.close(descriptor) }
    listener.activate()
    listeners.append(listener)
  }

  func connect(port: UInt32, _ done: @escaping @Sendable (Result<Int32, Failure>) -> Void) {
    let path = "\(arguments.folder)/v"
    DispatchQueue.global().async {
      do throws(Failure) {
        done(.success(try QemuGuest.dial(port, through: path)))
      } catch {
        done(.failure(error))
      }
    }
  }

  private func boot(
    with command: [String], vsock isPlugged: Bool, _ done: @escaping Done, then: @escaping @Sendable (Qmp) throws(Failure) -> Void
  ) {
    let (spec, arguments, programs, vsock, console, reports) = (spec, arguments, programs, vsock, console, reports)
    do throws(Failure) {
      try prepareFolder()
      for port in spec.ports ?? [] { try listen(port: port) }
    } catch {
      return done(error)
    }
    hasStarted = true
    let log = { @Sendable (name: String) in "\(spec.logs)/\(name).log" }
    DispatchQueue.global().async {
      let isServed = (spec.ports == nil || vsock.serve(isPlugged: isPlugged))
        && (spec.share.map {
          programs.serve(
            "/usr/libexec/virtiofsd", arguments.files($0), socket: "\(arguments.folder)/fs.sock", log: log("virtiofsd")) != nil
        } ?? true)
      guard isServed else {
        programs.kill()
        done(Failure(.hypervisor, "a program beside QEMU did not start: see \(spec.logs)"))
        return reports.ended(End(code: 1))
      }
      let monitor = "\(arguments.folder)/qmp.sock"
      guard programs.qemu(command, console: console, socket: monitor, log: log("qemu")) else {
        return done(Failure(.hypervisor, "QEMU did not start: see \(log("qemu"))"))
      }
      QemuGuest.execute(monitor, done, then)
    }
  }

  private func prepareFolder() throws(Failure) {
    let folder = arguments.folder
    do {
      try? FileManager.default.removeItem(atPath: folder)
      try FileManager.default.createDirectory(
        atPath: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    } catch {
      throw Failure(.socket, "\(folder) cannot be made: \(error.localizedDescription)")
    }
  }

  private func command(_ done: @escaping Done, _ commands: @escaping @Sendable (Qmp) throws(Failure) -> Void) {
    let monitor = "\(arguments.folder)/qmp.sock"
    DispatchQueue.global().async { QemuGuest.execute(monitor, done, commands) }
  }

  private static func execute(_ monitor: String, _ done: Done, _ commands: (Qmp) throws(Failure) -> Void) {
    do throws(Failure) {
      try commands(try Qmp(path: monitor))
      done(nil)
    } catch {
      done(error)
    }
  }

  private static func dial(_ port: UInt32, through path: String) throws(Failure) -> Int32 {
    let socket = try UnixSocket.connect(to: path)
    let line = Array("CONNECT \(port)\n".utf8)
    _ = line.withUnsafeBytes { UnixSocket.send(socket, $0) }
    // "OK <port>\n", byte by byte: what follows is the guest's.
    var answer: [UInt8] = []
    var byte: UInt8 = 0
    while answer.count < 32, read(socket, &byte, 1) == 1, byte != UInt8(ascii: "\n") { answer.append(byte) }
    guard byte == UInt8(ascii: "\n"), answer.starts(with: Array("OK ".utf8)) else {
      UnixSocket.close(socket)
      throw Failure(.socket, "nothing in the guest listens on vsock port \(port)")
    }
    return socket
  }
}
