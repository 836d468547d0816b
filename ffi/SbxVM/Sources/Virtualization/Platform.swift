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

  /// Why no machine can be saved. Whether one can depends on its devices: these are a VM's.
  private static var saving: String? {
    guard #available(macOS 14, *) else { return "saving machines needs macOS 14" }
    #if arch(arm64) || SBX_TYPES_OF_EVERY_MAC
      let configuration = VZVirtualMachineConfiguration()
      configuration.socketDevices = [VZVirtioSocketDeviceConfiguration()]
      configuration.directorySharingDevices = [VZVirtioFileSystemDeviceConfiguration(tag: "workspace")]
      configuration.entropyDevices = [VZVirtioEntropyDeviceConfiguration()]
      do {
        try configuration.validateSaveRestoreSupport()
        return nil
      } catch {
        return "the framework does not save such machines: \(error.localizedDescription)"
      }
    #else
      return "saving machines needs Apple silicon"
    #endif
  }
}
