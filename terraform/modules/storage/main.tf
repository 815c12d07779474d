locals {
  # Name => zone. Nodes are dealt over the zones in turn, so one more moves none that is there.
  nodes = { for i in range(var.nodes) : "storage-${i + 1}" => i % length(var.site.subnets) }
}

# Hosts near each other. A cluster placement group cannot span zones.
resource "aws_placement_group" "storage" {
  count = length(var.site.subnets) == 1 ? 1 : 0

  name     = "${var.site.name}-storage"
  strategy = "cluster"

  tags = { Name = "${var.site.name}-storage" }
}

module "node" {
  source   = "../instance"
  for_each = local.nodes

  name              = each.key
  role              = "storage"
  zone_index        = each.value
  site              = var.site
  image             = var.image
  type              = var.type
  security_group_id = var.security_group_id
  profile           = var.profile
  root_gib          = 50 # ScyllaDB's image with room for logs and core dumps' headers
  local_disks       = var.local_disks
  placement_group   = one(aws_placement_group.storage[*].name)
  protect           = var.protect
}
