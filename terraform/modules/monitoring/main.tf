module "node" {
  source   = "../instance"
  for_each = toset(["monitoring-1"])

  name              = each.key
  role              = "monitoring"
  zone_index        = 0
  site              = var.site
  image             = var.image
  type              = var.type
  security_group_id = var.security_group_id
  profile           = var.profile
  protect           = var.protect
}
