output "host" {
  description = "The host as the inventory needs it."
  value = {
    group         = var.role
    address       = aws_instance.host.private_ip
    dns           = aws_route53_record.host.name
    instance_id   = aws_instance.host.id
    instance_type = var.type.name
    image         = aws_instance.host.ami
    vcpus         = var.type.vcpus
    zone          = local.subnet.zone
    rack          = "rack${var.zone_index + 1}"
    data_devices = concat(
      var.local_disks,
      # Of an NVMe device the kernel's name is not known beforehand; this one follows from the volume's id.
      [for volume in aws_ebs_volume.data : "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_${replace(volume.id, "-", "")}"],
    )
    ssh_user = var.image.user
  }
}
