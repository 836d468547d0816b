// Declarations of Virtualization.framework, as far as ffi/SbxVM uses it, so that its calls are type-checked without a Mac. Nothing
// here runs. Where Apple's declaration leaves it open, the stricter reading is used: handlers are @Sendable, classes are not Sendable.
import Dispatch
import Foundation

public protocol VZVirtualMachineDelegate: AnyObject {
  func guestDidStop(_ virtualMachine: VZVirtualMachine)
  func virtualMachine(_ virtualMachine: VZVirtualMachine, didStopWithError error: any Error)
}

public class VZVirtualMachine: NSObject {
  public enum State: Int, Sendable {
    case stopped, running, paused, error, starting, pausing, resuming, stopping, saving, restoring
  }

  public class var isSupported: Bool { fatalError() }
  public init(configuration: VZVirtualMachineConfiguration, queue: DispatchQueue) { fatalError() }
  public weak var delegate: (any VZVirtualMachineDelegate)?
  public var state: State { fatalError() }
  public var canStop: Bool { fatalError() }
  public var socketDevices: [VZSocketDevice] { fatalError() }
  public func start(completionHandler: @escaping @Sendable (Result<Void, any Error>) -> Void) { fatalError() }
  public func stop(completionHandler: @escaping @Sendable ((any Error)?) -> Void) { fatalError() }
  public func pause(completionHandler: @escaping @Sendable (Result<Void, any Error>) -> Void) { fatalError() }
  public func resume(completionHandler: @escaping @Sendable (Result<Void, any Error>) -> Void) { fatalError() }

  @available(macOS 14, *)
  public func saveMachineStateTo(url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
    fatalError()
  }

  @available(macOS 14, *)
  public func restoreMachineStateFrom(url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
    fatalError()
  }
}

public class VZVirtualMachineConfiguration: NSObject {
  public override init() { fatalError() }
  public var bootLoader: VZBootLoader?
  public var platform: VZPlatformConfiguration
  public var cpuCount: Int
  public var memorySize: UInt64
  public var storageDevices: [VZStorageDeviceConfiguration]
  public var entropyDevices: [VZEntropyDeviceConfiguration]
  public var memoryBalloonDevices: [VZMemoryBalloonDeviceConfiguration]
  public var serialPorts: [VZSerialPortConfiguration]
  public var socketDevices: [VZSocketDeviceConfiguration]
  public var directorySharingDevices: [VZDirectorySharingDeviceConfiguration]
  public class var minimumAllowedCPUCount: Int { fatalError() }
  public class var maximumAllowedCPUCount: Int { fatalError() }
  public class var minimumAllowedMemorySize: UInt64 { fatalError() }
  public class var maximumAllowedMemorySize: UInt64 { fatalError() }
  public func validate() throws { fatalError() }

  @available(macOS 14, *)
  public func validateSaveRestoreSupport() throws { fatalError() }
}

public class VZBootLoader: NSObject {}

public class VZLinuxBootLoader: VZBootLoader {
  public init(kernelURL: URL) { fatalError() }
  public var initialRamdiskURL: URL?
  public var commandLine: String
}

public class VZPlatformConfiguration: NSObject {}

public class VZGenericPlatformConfiguration: VZPlatformConfiguration {
  public override init() { fatalError() }
  public var machineIdentifier: VZGenericMachineIdentifier

  @available(macOS 15, *)
  public class var isNestedVirtualizationSupported: Bool { fatalError() }
  @available(macOS 15, *)
  public var isNestedVirtualizationEnabled: Bool {
    get { fatalError() }
    set { fatalError() }
  }
}

public class VZGenericMachineIdentifier: NSObject {
  public override init() { fatalError() }
  public init?(dataRepresentation: Data) { fatalError() }
  public var dataRepresentation: Data { fatalError() }
}
