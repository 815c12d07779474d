output "zones" {
  description = "Availability zones to use, in order."
  value       = local.zones
}

output "types" {
  description = "Role => its instance type: name, and vcpus (hardware threads)."
  value = {
    for role, type in var.instance_types : role => { name = type, vcpus = try(local.known[type].default_vcpus, 0) }
  }
}

output "local_disks" {
  description = "Device names of a storage node's instance store. On Xen (i3) the root disk is no NVMe device; on Nitro it is the first."
  value = [
    for i in range(try(sum([for disk in local.known[local.storage].instance_disks : disk.count]), 0)) :
    "/dev/nvme${local.known[local.storage].hypervisor == "xen" ? i : i + 1}n1"
  ]
}
