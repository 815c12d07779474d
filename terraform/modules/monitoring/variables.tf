variable "site" {
  description = "Where hosts are; see module instance."
  type = object({
    name        = string
    subnets     = list(object({ id = string, zone = string }))
    domain      = string
    dns_zone_id = string
    key_name    = string
  })
}

variable "image" {
  description = "Machine image; see module instance."
  type        = object({ id = string, user = string, user_data = string })
}

variable "type" {
  description = "EC2 instance type; see module instance."
  type        = object({ name = string, vcpus = number })
}

variable "security_group_id" {
  description = "Id of the security group of the hosts."
  type        = string
}

variable "profile" {
  description = "Name of the instance profile of the hosts."
  type        = string
}

variable "protect" {
  description = "Whether the instance must not be ended."
  type        = bool
}
