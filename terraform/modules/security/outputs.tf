output "groups" {
  description = "Id of each security group, by role."
  value       = { for role, group in aws_security_group.role : role => group.id }

  # A host is not there before its rules are, nor after they are gone.
  depends_on = [
    aws_vpc_security_group_ingress_rule.between, aws_vpc_security_group_ingress_rule.admin,
    aws_vpc_security_group_egress_rule.vpc, aws_vpc_security_group_egress_rule.s3,
    aws_vpc_security_group_egress_rule.internet, aws_vpc_security_group_egress_rule.bastion,
    aws_vpc_security_group_egress_rule.load_balancer,
  ]
}
