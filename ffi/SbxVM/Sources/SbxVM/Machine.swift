import Dispatch

/// One machine: what is legal when, and who waits. The hypervisor's part is its ``Guest``.
final class Machine: Sendable {
  enum State: String {
    case created, starting, restoring, running, pausing, paused, resuming, saving, stopping, stopped
  }

  private typealias Waiting = Reply<Void>

  private let spec: Spec
  private let queue = DispatchQueue(label: "sbxvm.machine")
  private let life: Confined<Life>

  init(_ spec: Spec) {
    self.spec = spec
    life = Confined(to: queue) { Life() }
  }

  func start() throws(Failure) {
    try begin(.starting, then: .running) { $0.start($1) }
  }

  func restore(from folder: String) throws(Failure) {
    try begin(.restoring, then: .paused) { $0.restore(from: folder, $1) }
  }

  func pause() throws(Failure) {
    try change(from: .running, through: .pausing, to: .paused) { $0.pause($1) }
  }

  func resume() throws(Failure) {
    try change(from: .paused, through: .resuming, to: .running) { $0.resume($1) }
  }

  func save(to folder: String) throws(Failure) {
    try change(from: .paused, through: .saving, to: .paused) { $0.save(to: folder, $1) }
  }

  /// Ends the machine; those who wait for something else get `machine.ended`.
  func stop() throws(Failure) {
    let reply = Waiting()
    life.async { life in
      guard life.state != .stopped else { return reply.settle(.success(())) }
      life.ends.append(reply)
      guard life.state != .stopping else { return }
      let before = life.state
      life.enter(.stopping)
      self.askToStop(life, before: before)
    }
    try reply.wait()
  }

  /// - Parameter before: state after a failure
  private func askToStop(_ life: Life, before: State) {
    guard let guest = life.guest else { return life.end(End()) }
    guest.stop { failure in
      guard let failure else { return }
      self.life.async { life in
        guard life.state == .stopping else { return }
        life.enter(before)
        life.ends.forEach { $0.settle(.failure(failure)) }
        life.ends = []
      }
    }
  }

  func listen(port: UInt32) throws(Failure) {
    let reply = Waiting()
    life.async { life in
      reply.settle(
        Result { () throws(Failure) in
          guard let guest = life.guest else { throw life.illegal("listen") }
          guard self.spec.ports != nil else { throw Failure(.feature, "this machine has no vsock") }
          try guest.listen(port: port)
        })
    }
    try reply.wait()
  }

  /// Connects a port of the guest with a Unix socket.
  func connect(port: UInt32, to path: String) throws(Failure) {
    let reply = Waiting()
    life.async { life in
      guard let guest = life.guest, life.state == .running else {
        return reply.settle(.failure(life.illegal("connect")))
      }
      life.pending.append(reply)
      guest.connect(port: port) { result in
        switch result {
        case .success(let descriptor): self.join(descriptor, with: path) { self.finish(reply, $0) }
        case .failure(let failure): self.finish(reply, failure)
        }
      }
    }
    try reply.wait()
  }

  /// Makes the guest, and starts or restores it. A machine that fails to start has ended.
  private func begin(
    _ through: State, then to: State, _ act: @escaping @Sendable (any Guest, @escaping Done) -> Void
  ) throws(Failure) {
    let reply = Waiting()
    life.async { life in
      guard life.state == .created else { return reply.settle(.failure(life.illegal(through.rawValue))) }
      do throws(Failure) {
        let events = try Events(path: self.spec.events)
        life.events = events
        life.enter(through)
        let console = try UnixSocket.connect(to: self.spec.console)
        life.guest = try Platform.guest(of: self.spec, console: console, queue: self.queue, reports: self.reports)
      } catch {
        reply.settle(.failure(error))
        return life.end(End(code: 1, message: error.message))
      }
      life.pending.append(reply)
      self.run(life, reply, from: nil, through: through, to: to, act)
    }
    try reply.wait()
  }

  private func change(
    from: State, through: State, to: State, _ act: @escaping @Sendable (any Guest, @escaping Done) -> Void
  ) throws(Failure) {
    let reply = Waiting()
    life.async { life in
      guard life.state == from else { return reply.settle(.failure(life.illegal(through.rawValue))) }
      life.enter(through)
      life.pending.append(reply)
      self.run(life, reply, from: from, through: through, to: to, act)
    }
    try reply.wait()
  }

  /// - Parameter from: state after a failure; without one the machine ends
  private func run(
    _ life: Life, _ reply: Waiting, from: State?, through: State, to: State,
    _ act: @Sendable (any Guest, @escaping Done) -> Void
  ) {
    guard let guest = life.guest else { return }
    act(guest) { failure in
      self.life.async { life in
        // Somebody stops it, or it has ended: the answer is that of the end.
        guard life.state == through else {
          // A guest between two states may not have been able to end.
          if life.state == .stopping { self.askToStop(life, before: failure == nil ? to : from ?? .created) }
          return
        }
        life.forget(reply)
        if let failure {
          reply.settle(.failure(failure))
          if let from { life.enter(from) } else { life.end(End(code: 1, message: failure.message)) }
        } else {
          life.enter(to)
          reply.settle(.success(()))
        }
      }
    }
  }

  private func finish(_ reply: Waiting, _ failure: Failure?) {
    life.async { life in
      life.forget(reply)
      reply.settle(failure.map { .failure($0) } ?? .success(()))
    }
  }

  private var reports: Reports {
    Reports(
      ended: { end in self.life.async { $0.end(end) } },
      connected: { port, descriptor in self.join(descriptor, with: "\(self.spec.dir)/v_\(port)") { _ in } })
  }

  /// Connects a descriptor, which it owns, with a Unix socket, until both are closed or the machine ends.
  private func join(_ descriptor: Int32, with path: String, _ done: @escaping Done) {
    DispatchQueue.global().async {
      do throws(Failure) {
        let socket = try UnixSocket.connect(to: path)
        self.life.async { $0.bridge(descriptor, socket, owner: self.life) }
        done(nil)
      } catch {
        UnixSocket.close(descriptor)
        done(error)
      }
    }
  }
}
