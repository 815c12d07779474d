locals {
  # The one table of ports, TCP.
  ports = {
    cql                 = 9042
    cql_tls             = 9142
    cql_shard_aware     = 19042
    cql_shard_aware_tls = 19142
    storage             = 7000
    storage_tls         = 7001
    storage_metrics     = 9180
    scylla_api          = 10000
    node_exporter       = 9100
    loader_metrics      = 9105
    kairosdb_http       = 8080
    kairosdb_telnet     = 4242
  }

  bastion = var.access == "ssh"
  ssm     = var.access == "ssm"

  site = {
    name        = var.name
    subnets     = module.network.private_subnets
    domain      = module.network.domain
    dns_zone_id = module.network.dns_zone_id
    key_name    = module.access.key_name
  }
}

module "shape" {
  source = "./modules/shape"

  region     = var.region
  zone_count = var.storage_zones
  zones      = var.zones
  instance_types = merge(
    {
      storage    = var.storage_instance_type
      kairosdb   = var.kairosdb_instance_type
      loader     = var.loader_instance_type
      monitoring = var.monitoring_instance_type
    },
    local.bastion ? { bastion = "t3.micro" } : {},
  )
}

module "images" {
  source = "./modules/images"

  region         = var.region
  scylla_version = var.scylla_version
  debian_version = var.debian_version
  ssm_agent      = local.ssm
  ids            = { scylla = var.scylla_image, debian = var.debian_image }
}

module "network" {
  source = "./modules/network"

  name       = var.name
  region     = var.region
  cidr       = var.vpc_cidr
  zones      = module.shape.zones
  zone_count = var.storage_zones
  nat        = var.nat
  public     = local.bastion
}

module "security" {
  source = "./modules/security"

  name              = var.name
  vpc_id            = module.network.vpc_id
  vpc_cidr          = var.vpc_cidr
  ports             = local.ports
  bastion           = local.bastion
  admin_cidrs       = var.admin_cidrs
  nat               = var.nat
  endpoints         = local.ssm && !var.nat
  s3_prefix_list_id = module.network.s3_prefix_list_id
}

module "access" {
  source = "./modules/access"

  name            = var.name
  region          = var.region
  ssh_public_key  = var.ssh_public_key
  vpc_id          = module.network.vpc_id
  public_subnets  = module.network.public_subnets
  private_subnets = module.network.private_subnets
  domain          = module.network.domain
  dns_zone_id     = module.network.dns_zone_id
  bastion = !local.bastion ? null : {
    image             = module.images.bastion
    type              = module.shape.types["bastion"]
    security_group_id = module.security.groups["bastion"]
  }
  endpoints = !local.ssm || var.nat ? null : {
    security_group_id = module.security.groups["endpoints"]
  }
}

module "results" {
  source = "./modules/results"

  name         = var.name
  results_days = var.results_days
  backup_days  = var.backup_days
  keep         = var.protect
}

module "identity" {
  source = "./modules/identity"

  prefix     = "${var.name}-${var.region}"
  bucket_arn = module.results.arn
  ssm        = local.ssm
  boundary   = var.permissions_boundary
}

module "storage" {
  source = "./modules/storage"

  nodes             = var.storage_nodes
  type              = module.shape.types["storage"]
  local_disks       = module.shape.local_disks
  site              = local.site
  image             = module.images.scylla
  security_group_id = module.security.groups["storage"]
  profile           = module.identity.profiles["storage"]
  protect           = var.protect
}

module "kairosdb" {
  source = "./modules/kairosdb"

  nodes                           = var.kairosdb_nodes
  type                            = module.shape.types["kairosdb"]
  queue_volume_gib                = var.queue_volume_gib
  secured                         = var.secured
  site                            = local.site
  image                           = module.images.debian
  vpc_id                          = module.network.vpc_id
  security_group_id               = module.security.groups["kairosdb"]
  load_balancer_security_group_id = module.security.groups["load_balancer"]
  port                            = local.ports.kairosdb_http
  profile                         = module.identity.profiles["kairosdb"]
  protect                         = var.protect
}

module "loader" {
  source = "./modules/loader"

  nodes             = var.loader_hosts
  type              = module.shape.types["loader"]
  spot              = var.loader_spot
  site              = local.site
  image             = module.images.debian
  security_group_id = module.security.groups["loader"]
  profile           = module.identity.profiles["loader"]
}

module "monitoring" {
  source = "./modules/monitoring"

  type              = module.shape.types["monitoring"]
  site              = local.site
  image             = module.images.debian
  security_group_id = module.security.groups["monitoring"]
  profile           = module.identity.profiles["monitoring"]
  protect           = var.protect
}

# Each protected host refuses for itself; this one does before anything else is destroyed.
module "protection" {
  source = "./modules/protection"

  what    = var.name
  protect = var.protect

  depends_on = [
    module.access, module.identity, module.kairosdb, module.loader, module.monitoring, module.network, module.results,
    module.security, module.shape, module.storage,
  ]
}
