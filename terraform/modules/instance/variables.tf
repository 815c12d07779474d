variable "name" {
  description = "Name of the host, such as storage-2; unique in the deployment."
  type        = string
}

variable "role" {
  description = "Group of the host in the inventory."
  type        = string
}

variable "site" {
  description = "Where hosts are: prefix of names, subnets in the order of zones, private DNS domain, id of its Route 53 zone, and the key pair that may log in."
  type = object({
    name        = string
    subnets     = list(object({ id = string, zone = string }))
    domain      = string
    dns_zone_id = string
    key_name    = string
  })
}

variable "zone_index" {
  description = "Which of the site's subnets, from 0."
  type        = number
}

variable "image" {
  description = "Machine image: its id, who logs in, and its first-boot data (null: none)."
  type        = object({ id = string, user = string, user_data = string })
}

variable "type" {
  description = "EC2 instance type: its name, and its vCPUs."
  type        = object({ name = string, vcpus = number })
}

variable "security_group_id" {
  description = "Id of the security group that the host is in."
  type        = string
}

variable "profile" {
  description = "Name of the instance profile; null: the host has no permissions at AWS."
  type        = string
  default     = null
}

variable "root_gib" {
  description = "Size of the root disk in GiB."
  type        = number
  default     = 30
}

variable "data_volume_gib" {
  description = "Size in GiB of a data volume that outlives the instance; null: none."
  type        = number
  default     = null
}

variable "local_disks" {
  description = "Device names of the type's local disks that hold data. The instance must then not be stopped: they come back empty."
  type        = list(string)
  default     = []
}

variable "placement_group" {
  description = "Name of the placement group; null: none."
  type        = string
  default     = null
}

variable "spot" {
  description = "Whether it is a spot instance."
  type        = bool
  default     = false
}

variable "protect" {
  description = "Whether AWS and Terraform refuse to end the instance, and AWS to stop it if it has local disks; null: it holds nothing to protect."
  type        = bool
  default     = null
}
