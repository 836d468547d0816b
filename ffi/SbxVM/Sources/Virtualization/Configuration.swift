import Foundation
import Virtualization

extension Spec {
  /// The framework's configuration of this machine.
  ///
  /// - Parameters:
  ///   - console: socket of the guest's serial console
  ///   - identifier: the identity of the saved machine that this one goes on as
  func configuration(
    console: FileHandle, identifier: VZGenericMachineIdentifier
  ) throws(Failure) -> VZVirtualMachineConfiguration {
    do {
      let configuration = VZVirtualMachineConfiguration()
      configuration.cpuCount = cpus
      configuration.memorySize = memoryMb * 1024 * 1024
      let boot = VZLinuxBootLoader(kernelURL: URL(fileURLWithPath: kernel))
      boot.initialRamdiskURL = URL(fileURLWithPath: initrd)
      boot.commandLine = commandLine
      configuration.bootLoader = boot
      let platform = VZGenericPlatformConfiguration()
      platform.machineIdentifier = identifier
      if nested { try Nested.enable(on: platform) }
      configuration.platform = platform
      configuration.storageDevices = try disks.map { try $0.device() }
      configuration.entropyDevices = [VZVirtioEntropyDeviceConfiguration()]
      configuration.memoryBalloonDevices = [VZVirtioTraditionalMemoryBalloonDeviceConfiguration()]
      let port = VZVirtioConsoleDeviceSerialPortConfiguration()
      port.attachment = VZFileHandleSerialPortAttachment(fileHandleForReading: console, fileHandleForWriting: console)
      configuration.serialPorts = [port]
      if ports != nil { configuration.socketDevices = [VZVirtioSocketDeviceConfiguration()] }
      if let share { configuration.directorySharingDevices.append(share.device()) }
      if rosetta { configuration.directorySharingDevices.append(try Rosetta.device()) }
      try configuration.validate()
      return configuration
    } catch let failure as Failure {
      throw failure
    } catch {
      throw Failure(.spec, "the framework refuses this machine: \(error.localizedDescription)")
    }
  }
}

extension Spec.Disk {
  fileprivate func device() throws -> VZStorageDeviceConfiguration {
    // Host caches and flushes, as QEMU's default does: a guest that syncs finds its bytes after a crash of the host.
    let attachment = try VZDiskImageStorageDeviceAttachment(
      url: URL(fileURLWithPath: path), readOnly: readOnly, cachingMode: .automatic, synchronizationMode: .fsync)
    return VZVirtioBlockDeviceConfiguration(attachment: attachment)
  }
}

extension Spec.Share {
  fileprivate func device() -> VZVirtioFileSystemDeviceConfiguration {
    let device = VZVirtioFileSystemDeviceConfiguration(tag: tag)
    let folder = VZSharedDirectory(url: URL(fileURLWithPath: path, isDirectory: true), readOnly: false)
    device.share = VZSingleDirectoryShare(directory: folder)
    return device
  }
}
