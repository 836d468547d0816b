import Dispatch
import Foundation
import Virtualization

/// Virtualization.framework.
enum Platform: Hypervisor {
  static var abilities: Abilities {
    var features = ["pause": true, "shared_folder": true, "vsock": true, "emulation": false]
    var lacks: [String: String] = [:]
    for (feature, lack) in [("save_state", saving), ("rosetta", Rosetta.lack), ("nested", Nested.lack)] {
      features[feature] = lack == nil
      lacks[feature] = lack
    }
    return Abilities(hypervisor: "vz", console: "hvc0", features: features, lacks: lacks)
  }

  static func guest(
    of spec: Spec, console: Int32, queue: DispatchQueue, reports: Reports
  ) throws(Failure) -> any Guest {
    // Owns the descriptor from here on.
    let console = FileHandle(fileDescriptor: console, closeOnDealloc: true)
    guard VZVirtualMachine.isSupported else {
      throw Failure(.feature, "this Mac cannot run virtual machines, or the program lacks the virtualization entitlement")
    }
    return VirtualizationGuest(spec, console: console, queue: queue, reports: reports)
  }

  /// Why no VM can be saved: it has these devices.
  private static var saving: String? {
    // The framework raises an exception for a handle without a descriptor, as FileHandle.nullDevice is.
    guard let console = FileHandle(forUpdatingAtPath: "/dev/null") else { return "/dev/null cannot be opened" }
    let configuration = VZVirtualMachineConfiguration()
    configuration.addDevices(console: console, vsock: true)
    configuration.directorySharingDevices = [VZVirtioFileSystemDeviceConfiguration(tag: "workspace")]
    return configuration.lackOfSaving
  }
}
