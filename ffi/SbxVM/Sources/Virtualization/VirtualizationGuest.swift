import Dispatch
import Foundation
import Virtualization

/// A machine of the framework, which calls back on the machine's queue.
final class VirtualizationGuest: NSObject, Guest, VZVirtualMachineDelegate {
  private let spec: Spec
  private let console: FileHandle
  private let queue: DispatchQueue
  private let reports: Reports
  private var machine: VZVirtualMachine?
  private var configuration: VZVirtualMachineConfiguration?
  private var identifier = VZGenericMachineIdentifier()
  private var listeners: [SocketListener] = []

  init(_ spec: Spec, console: FileHandle, queue: DispatchQueue, reports: Reports) {
    self.spec = spec
    self.console = console
    self.queue = queue
    self.reports = reports
  }

  func start(_ done: @escaping Done) {
    make(done) { $0.start { done(Failure.of($0)) } }
  }

  func stop(_ done: @escaping Done) {
    guard let machine, machine.canStop else {
      // It has not started, or has ended. Otherwise it is between two states: this is called again in the next one, or the delegate
      // reports its end.
      if machine == nil || machine?.state == .stopped || machine?.state == .error { reports.ended(End()) }
      return done(nil)
    }
    let ended = reports.ended
    machine.stop { error in
      // The framework tells its delegate of ends by the guest or by errors only.
      if error == nil { ended(End()) }
      done(error.map { Failure(.hypervisor, "stop: \($0.localizedDescription)") })
    }
  }

  func pause(_ done: @escaping Done) {
    with(done) { $0.pause { done(Failure.of($0)) } }
  }

  func resume(_ done: @escaping Done) {
    with(done) { $0.resume { done(Failure.of($0)) } }
  }

  func save(to folder: String, _ done: @escaping Done) {
    let image = SavedMachine(folder: folder)
    let identifier = identifier
    // The framework would only say that something went wrong.
    if let lack = configuration?.lackOfSaving { return done(Failure(.feature, lack)) }
    with(done) { image.save($0, identifier, done) }
  }

  func restore(from folder: String, _ done: @escaping Done) {
    let image = SavedMachine(folder: folder)
    do throws(Failure) {
      identifier = try image.identifier()
    } catch {
      return done(error)
    }
    make(done) { image.restore($0, done) }
  }

  func listen(port: UInt32) throws(Failure) {
    guard let device = machine?.socketDevices.first as? VZVirtioSocketDevice else {
      throw Failure(.feature, "this machine has no vsock")
    }
    let connected = reports.connected
    let listener = SocketListener { connected(port, $0) }
    listeners.append(listener)
    device.setSocketListener(listener.listener, forPort: port)
  }

  func connect(port: UInt32, _ done: @escaping @Sendable (Result<Int32, Failure>) -> Void) {
    guard let device = machine?.socketDevices.first as? VZVirtioSocketDevice else {
      return done(.failure(Failure(.feature, "this machine has no vsock")))
    }
    device.connect(toPort: port) { result in
      switch result {
      case .success(let connection): done(connection.duplicate())
      case .failure(let error):
        done(.failure(Failure(.socket, "vsock port \(port): \(error.localizedDescription)")))
      }
    }
  }

  func guestDidStop(_ virtualMachine: VZVirtualMachine) {
    reports.ended(End())
  }

  func virtualMachine(_ virtualMachine: VZVirtualMachine, didStopWithError error: any Error) {
    reports.ended(End(code: 1, message: error.localizedDescription))
  }

  private func make(_ done: @escaping Done, _ act: (VZVirtualMachine) -> Void) {
    do throws(Failure) {
      let configuration = try spec.configuration(console: console, identifier: identifier)
      let machine = VZVirtualMachine(configuration: configuration, queue: queue)
      machine.delegate = self
      self.machine = machine
      self.configuration = configuration
      for port in spec.ports ?? [] { try listen(port: port) }
      act(machine)
    } catch {
      done(error)
    }
  }

  private func with(_ done: Done, _ act: (VZVirtualMachine) -> Void) {
    guard let machine else { return done(Failure(.ended, "the machine has ended")) }
    act(machine)
  }
}

extension Failure {
  /// The framework's refusal, if it refused.
  fileprivate static func of(_ result: Result<Void, any Error>) -> Failure? {
    guard case .failure(let error) = result else { return nil }
    return Failure(.hypervisor, error.localizedDescription)
  }
}
