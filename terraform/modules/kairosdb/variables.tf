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

variable "nodes" {
  description = "Number of KairosDB nodes."
  type        = number
}

variable "queue_volume_gib" {
  description = "Size in GiB of each node's volume for the file queue."
  type        = number
}

variable "vpc_id" {
  description = "Id of the VPC."
  type        = string
}

variable "load_balancer_security_group_id" {
  description = "Id of the security group of the load balancer."
  type        = string
}

variable "port" {
  description = "TCP port of KairosDB's REST interface, and of the load balancer."
  type        = number
}

variable "protect" {
  description = "Whether the instances must not be ended, nor the load balancer deleted."
  type        = bool
}

variable "secured" {
  description = "Whether KairosDB's REST interface speaks TLS; the load balancer passes it on as it is."
  type        = bool
  nullable    = false
}
