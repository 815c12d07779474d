locals {
  # Name => zone, dealt in turn as storage nodes are.
  nodes = { for i in range(var.nodes) : "loader-${i + 1}" => i % length(var.site.subnets) }
}

module "node" {
  source   = "../instance"
  for_each = local.nodes

  name              = each.key
  role              = "loader"
  zone_index        = each.value
  site              = var.site
  image             = var.image
  type              = var.type
  security_group_id = var.security_group_id
  profile           = var.profile
  spot              = var.spot
}
