# From the plan: `kairoscope` writes these into experiment.auto.tfvars.json. Those from the person are
# in variables_account.tf.

variable "experiment" {
  description = "From the plan: name of the experiment, for the tag of that name."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{0,39}$", var.experiment))
    error_message = "experiment = \"${var.experiment}\": 1 to 40 lower-case letters, digits and hyphens, and no hyphen first."
  }
}

variable "storage_nodes" {
  description = "From the plan: number of ScyllaDB nodes."
  type        = number
  nullable    = false

  validation {
    condition     = var.storage_nodes >= 1 && floor(var.storage_nodes) == var.storage_nodes
    error_message = "storage_nodes = ${var.storage_nodes}: must be a whole number, at least 1."
  }
}

variable "replication_factor" {
  description = "From the plan: copies of each point. Only checked here; KairosDB's schema sets it."
  type        = number
  nullable    = false

  validation {
    condition     = var.replication_factor >= 1 && floor(var.replication_factor) == var.replication_factor
    error_message = "replication_factor = ${var.replication_factor}: must be a whole number, at least 1."
  }

  validation {
    condition     = var.replication_factor <= var.storage_nodes
    error_message = "replication_factor = ${var.replication_factor}, but storage_nodes = ${var.storage_nodes}: each copy needs a node of its own. Lower cluster.replication_factor or raise cluster.storage_nodes in the experiment."
  }
}

variable "storage_zones" {
  description = <<-EOT
    From the plan: number of availability zones that the nodes are spread over, 1 or 3.
    1: all in one zone, storage in a cluster placement group: least latency, but the zone is a single point of failure.
    3: nodes dealt over three zones, each zone a rack, no placement group: a zone may fail, but each write crosses
    zones, which costs latency and traffic.
    To change it in a standing deployment replaces nodes.
  EOT
  type        = number
  nullable    = false

  validation {
    condition     = contains([1, 3], var.storage_zones)
    error_message = "storage_zones = ${var.storage_zones}: must be 1 (one zone, a placement group) or 3 (a rack in each zone)."
  }

  validation {
    condition     = var.storage_zones <= var.storage_nodes
    error_message = "storage_zones = ${var.storage_zones}, but storage_nodes = ${var.storage_nodes}: a zone would be left without a node. Set cluster.storage_nodes in the experiment to 3 or more, or the zones to 1."
  }
}

variable "storage_instance_type" {
  description = "From the plan: EC2 instance type of ScyllaDB nodes; x86_64 with local NVMe disks. Published run: i3.8xlarge."
  type        = string
  nullable    = false
}

variable "scylla_version" {
  description = "From the plan: ScyllaDB release, such as 2026.1.11; its machine image is looked up by this."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[0-9]+\\.[0-9]+\\.[0-9]+(-rc[0-9]+)?$", var.scylla_version))
    error_message = "scylla_version = \"${var.scylla_version}\": must be a whole release number, such as 2026.1.11. A part of one (2026.1) would let the image change from one deploy to the next."
  }
}

variable "kairosdb_nodes" {
  description = "From the plan: number of KairosDB nodes."
  type        = number
  nullable    = false

  validation {
    condition     = var.kairosdb_nodes >= 1 && floor(var.kairosdb_nodes) == var.kairosdb_nodes
    error_message = "kairosdb_nodes = ${var.kairosdb_nodes}: must be a whole number, at least 1."
  }
}

variable "kairosdb_instance_type" {
  description = "From the plan: EC2 instance type of KairosDB nodes; x86_64, of the Nitro system. Published run: m5.2xlarge."
  type        = string
  nullable    = false
}

variable "secured" {
  description = "From the plan: whether the servers speak TLS, and KairosDB's REST interface HTTPS."
  type        = bool
  nullable    = false
}

variable "queue_volume_gib" {
  description = "From the plan: size in GiB of the encrypted gp3 volume that each KairosDB node has for its file queue. Published run: 200."
  type        = number
  nullable    = false

  validation {
    condition     = var.queue_volume_gib >= 10 && var.queue_volume_gib <= 16384 && floor(var.queue_volume_gib) == var.queue_volume_gib
    error_message = "queue_volume_gib = ${var.queue_volume_gib}: must be a whole number of GiB from 10 to 16384 (the most that gp3 has)."
  }
}

variable "loader_hosts" {
  description = "From the plan: number of hosts that emulate sensors."
  type        = number
  nullable    = false

  validation {
    condition     = var.loader_hosts >= 1 && floor(var.loader_hosts) == var.loader_hosts
    error_message = "loader_hosts = ${var.loader_hosts}: must be a whole number, at least 1."
  }
}

variable "loader_instance_type" {
  description = "From the plan: EC2 instance type of loader hosts; x86_64. Published run: m5.2xlarge."
  type        = string
  nullable    = false
}

variable "loader_spot" {
  description = "From the plan: whether loader hosts are spot instances. Cheaper, but AWS may take one away in mid-run, which makes the run incomplete."
  type        = bool
  nullable    = false
}

variable "monitoring_instance_type" {
  description = "From the plan: EC2 instance type of the monitoring host; x86_64. Usual: t3.large."
  type        = string
  nullable    = false
}
