# From the person: account.tfvars, made from account.tfvars.example.

variable "region" {
  description = "AWS region, such as eu-central-1. No default: it decides where the data is and what it costs."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "region = \"${var.region}\": must be the code of a region, such as eu-central-1 (no availability zone: no letter at the end)."
  }
}

variable "zones" {
  description = <<-EOT
    Availability zones to use, as many as storage_zones, such as ["eu-central-1b"]. Empty: the first ones of the region
    that offer all instance types, chosen at the first deploy and kept since. To name one helps when AWS has no capacity
    in the zone chosen (InsufficientInstanceCapacity). To change them in a standing deployment replaces nodes.
  EOT
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.zones) == 0 || length(distinct(var.zones)) == length(var.zones) && length(var.zones) == var.storage_zones
    error_message = "zones = [${join(", ", var.zones)}], but storage_zones = ${var.storage_zones}: name as many different zones, or none to have them chosen."
  }
}

variable "name" {
  description = "Prefix of all names, so that two deployments can live in one account and region."
  type        = string
  default     = "kairoscope"
  nullable    = false

  validation {
    # 20: a load balancer's name has at most 32 characters, and may not begin with "internal-".
    condition     = can(regex("^[a-z][a-z0-9-]{0,18}[a-z0-9]$", var.name)) && !startswith("${var.name}-", "internal-")
    error_message = "name = \"${var.name}\": 2 to 20 lower-case letters, digits and hyphens, a letter first, no hyphen last, and not beginning with \"internal-\" (AWS keeps that for itself)."
  }
}

variable "owner" {
  description = "Who answers for the cost, for the tag Owner on everything; an address or a team's name."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[\\p{L}\\p{N} _.:/=+@-]{1,256}$", var.owner)) && trimspace(var.owner) != ""
    error_message = "owner = \"${var.owner}\": must not be empty; letters, digits, spaces and _ . : / = + - @ are what a tag may have."
  }
}

variable "expires" {
  description = "Day (YYYY-MM-DD) after which anybody may delete the deployment, for the tag Expires on everything. Nothing deletes it by itself."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[0-9]{4}-[0-9]{2}-[0-9]{2}$", var.expires)) && can(timeadd("${var.expires}T00:00:00Z", "0s"))
    error_message = "expires = \"${var.expires}\": must be a day that there is, written YYYY-MM-DD, such as 2027-01-31."
  }
}

variable "access" {
  description = <<-EOT
    How people and Ansible reach the hosts, which have no public addresses.
    ssh: through a bastion host, whose port 22 answers admin_cidrs only.
    ssm: through AWS Systems Manager, with the caller's AWS credentials; no bastion and no open port.
    To change it later needs hosts made anew: what reaches them is set up at their first boot.
  EOT
  type        = string
  default     = "ssh"
  nullable    = false

  validation {
    condition     = contains(["ssh", "ssm"], var.access)
    error_message = "access = \"${var.access}\": must be \"ssh\" (a bastion host) or \"ssm\" (AWS Systems Manager)."
  }
}

variable "admin_cidrs" {
  description = "IPv4 ranges from where SSH to the bastion is allowed, such as [\"203.0.113.7/32\"]; not used with access = \"ssm\". No default: only you know where you come from."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = var.access != "ssh" || length(var.admin_cidrs) > 0
    error_message = "admin_cidrs is empty, so nobody could log in. Give the address that you come from, such as [\"203.0.113.7/32\"] (curl https://checkip.amazonaws.com tells it), or set access = \"ssm\"."
  }

  validation {
    condition     = alltrue([for cidr in var.admin_cidrs : can(cidrnetmask(cidr))])
    error_message = "admin_cidrs: no IPv4 range: ${join(", ", [for cidr in var.admin_cidrs : cidr if !can(cidrnetmask(cidr))])}. Write address/bits; a single address ends in /32."
  }

  validation {
    condition     = alltrue([for cidr in var.admin_cidrs : try(cidrsubnet(cidr, 0, 0) == cidr, true)])
    error_message = "admin_cidrs: the address is not the first of its range: ${join(", ", [for cidr in var.admin_cidrs : "${cidr} (the range is ${cidrsubnet(cidr, 0, 0)})" if try(cidrsubnet(cidr, 0, 0) != cidr, false)])}. Write the range, or the address with /32."
  }

  validation {
    condition     = var.open_to_the_world || alltrue([for cidr in var.admin_cidrs : try(tonumber(split("/", cidr)[1]) >= 8, true)])
    error_message = "admin_cidrs: wider than /8: ${join(", ", [for cidr in var.admin_cidrs : cidr if try(tonumber(split("/", cidr)[1]) < 8, false)])}. Give the addresses that you come from. If SSH shall really be open to the world, set open_to_the_world = true as well."
  }

  validation {
    # Wider ones are no network that somebody is in: they contain every VPC, and the check above is theirs.
    condition = alltrue([
      for cidr in var.admin_cidrs : try(
        tonumber(split("/", cidr)[1]) < 8 ||
        cidrsubnet("${split("/", cidr)[0]}/${min(split("/", cidr)[1], split("/", var.vpc_cidr)[1])}", 0, 0) !=
        cidrsubnet("${split("/", var.vpc_cidr)[0]}/${min(split("/", cidr)[1], split("/", var.vpc_cidr)[1])}", 0, 0),
        true
      )
    ])
    error_message = "admin_cidrs [${join(", ", var.admin_cidrs)}] overlap vpc_cidr ${var.vpc_cidr}: one address would be on both sides. Choose another vpc_cidr, or the public address that you come from."
  }
}

variable "open_to_the_world" {
  description = "The second word that admin_cidrs wider than /8, such as 0.0.0.0/0, need."
  type        = bool
  default     = false
  nullable    = false
}

variable "ssh_public_key" {
  description = "Public key that may log in, in OpenSSH's format: the whole line of a .pub file. Used with access = \"ssm\" too. EC2 takes Ed25519 and RSA."
  type        = string
  nullable    = false

  validation {
    condition     = !strcontains(var.ssh_public_key, "PRIVATE KEY")
    error_message = "ssh_public_key is a private key. It must never leave your machine; take it out of the file. Give the line in the .pub file beside it instead."
  }

  validation {
    # The key itself repeats its type in its first bytes, so a cut or mixed-up line is noticed.
    condition = strcontains(var.ssh_public_key, "PRIVATE KEY") || can(regex(
      "^(ssh-ed25519 AAAAC3NzaC1lZDI1NTE5[0-9A-Za-z+/]{48}|ssh-rsa AAAAB3NzaC1yc2E[0-9A-Za-z+/]{200,}={0,2})( [^\\n]*)?\\n?$",
      var.ssh_public_key
    ))
    error_message = "ssh_public_key is no OpenSSH public key of a kind that EC2 takes (Ed25519 or RSA). Give the whole line of a .pub file, not its path: \"ssh-ed25519 AAAA... name\". To make a key: ssh-keygen -t ed25519."
  }
}

variable "vpc_cidr" {
  description = "Private IPv4 range of the deployment's network, /16 to /20. It must not overlap a network that you come from or are joined to."
  type        = string
  default     = "10.42.0.0/16"
  nullable    = false

  validation {
    condition     = can(cidrnetmask(var.vpc_cidr)) && try(cidrsubnet(var.vpc_cidr, 0, 0) == var.vpc_cidr, false)
    error_message = "vpc_cidr = \"${var.vpc_cidr}\": must be an IPv4 range that begins with its first address, such as 10.42.0.0/16."
  }

  validation {
    condition     = try(tonumber(split("/", var.vpc_cidr)[1]) >= 16 && tonumber(split("/", var.vpc_cidr)[1]) <= 20, true)
    error_message = "vpc_cidr = \"${var.vpc_cidr}\": must be /16 to /20: AWS has no larger network, and a smaller one has too few addresses in each of its subnets."
  }

  validation {
    condition = !can(cidrnetmask(var.vpc_cidr)) || anytrue([
      for private in ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"] :
      try(cidrsubnet("${split("/", var.vpc_cidr)[0]}/${split("/", private)[1]}", 0, 0) == private, false)
    ])
    error_message = "vpc_cidr = \"${var.vpc_cidr}\": must lie in 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16; other addresses belong to somebody on the internet."
  }
}

variable "nat" {
  description = "Whether hosts reach the internet, for packages, through one NAT gateway. Without: they have no way out, and packages must be in the images or come over SSH. ScyllaDB's images before 2026.2 have no nftables: leave it on for the first deploy."
  type        = bool
  default     = true
  nullable    = false
}

variable "protect" {
  description = <<-EOT
    Whether data is protected. Terraform then refuses to destroy the deployment, and to destroy or replace a storage,
    KairosDB or monitoring host; AWS refuses everybody to end those, to stop storage hosts (their local disks would come
    back empty) and to delete the load balancer; and the bucket is not deleted while it holds anything.
    To destroy, apply protect = false first.
  EOT
  type        = bool
  default     = false
  nullable    = false
}

variable "permissions_boundary" {
  description = "ARN of the policy of hosts-boundary.json, which bounds what hosts can be allowed; null where whoever deploys may make roles without one. deployer-policy.json wants it. Chosen at the first deploy."
  type        = string
  default     = null

  validation {
    condition     = var.permissions_boundary == null || can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:policy/", var.permissions_boundary))
    error_message = "permissions_boundary = \"${coalesce(var.permissions_boundary, "null")}\": must be the ARN of a policy, such as arn:aws:iam::123456789012:policy/kairoscope-hosts."
  }
}

variable "debian_version" {
  description = "Debian release of all hosts but storage: 12 or 13."
  type        = string
  default     = "12"
  nullable    = false

  validation {
    condition     = contains(["12", "13"], var.debian_version)
    error_message = "debian_version = \"${var.debian_version}\": must be \"12\" or \"13\"."
  }
}

variable "scylla_image" {
  description = "Image of storage hosts by id, such as ami-0123456789abcdef0, in place of the newest of ScyllaDB's for scylla_version: so that a node made later is like its neighbours. The inventory has the id of each host's."
  type        = string
  default     = null

  validation {
    condition     = var.scylla_image == null || can(regex("^ami-[0-9a-f]{8,17}$", var.scylla_image))
    error_message = "scylla_image = \"${coalesce(var.scylla_image, "null")}\": must be the id of an image, such as ami-0123456789abcdef0."
  }
}

variable "debian_image" {
  description = "The same of all other hosts."
  type        = string
  default     = null

  validation {
    condition     = var.debian_image == null || can(regex("^ami-[0-9a-f]{8,17}$", var.debian_image))
    error_message = "debian_image = \"${coalesce(var.debian_image, "null")}\": must be the id of an image, such as ami-0123456789abcdef0."
  }
}

variable "results_days" {
  description = "Age in days at which what is below results/ in the bucket is deleted."
  type        = number
  default     = 90
  nullable    = false

  validation {
    condition     = var.results_days >= 1 && var.results_days <= 3650 && floor(var.results_days) == var.results_days
    error_message = "results_days = ${var.results_days}: must be a whole number of days from 1 to 3650."
  }
}

variable "backup_days" {
  description = "Age in days at which backups that the storage hosts send by themselves (operate schedule-backups) are deleted. Those that a person makes stay."
  type        = number
  default     = 14
  nullable    = false

  validation {
    condition     = var.backup_days >= 1 && var.backup_days <= 3650 && floor(var.backup_days) == var.backup_days
    error_message = "backup_days = ${var.backup_days}: must be a whole number of days from 1 to 3650."
  }
}

check "expires" {
  assert {
    condition     = timecmp("${var.expires}T23:59:59Z", plantimestamp()) >= 0
    error_message = "expires = \"${var.expires}\" is past: by its tags, anybody may delete this deployment. Destroy it, or set a later day."
  }
}
